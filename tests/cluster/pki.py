# SPDX-License-Identifier: Apache-2.0
"""Certificates for a test bed, made by openssl when they are needed."""
import subprocess

DAYS = 30
# Nothing of the machine's own configuration gets into a certificate.
CONFIG = "[req]\ndistinguished_name = name\n[name]\n"
SERVER, CLIENT = "serverAuth", "clientAuth"


def openssl(*words, **how):
    return subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, **how)


class Authority:
    """A certificate authority; its certificate is in FILE.crt of the directory."""

    def __init__(self, directory, file, name):
        self.directory = directory
        self.crt, self.key = directory / f"{file}.crt", directory / f"{file}.key"
        self.config = directory / "openssl.conf"
        if not self.crt.exists():
            directory.mkdir(mode=0o700, exist_ok=True)
            self.config.write_text(CONFIG)
            self.make(self.crt, self.key, f"/CN={name}",
                      ["basicConstraints=critical,CA:TRUE",
                       "keyUsage=critical,keyCertSign,cRLSign,digitalSignature",
                       "subjectKeyIdentifier=hash"], [])

    def make(self, crt, key, subject, extensions, signer, days=DAYS):
        words = [word for extension in extensions for word in ("-addext", extension)]
        openssl("req", "-x509", "-config", self.config, "-newkey", "ec",
                "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-sha256", "-days", days,
                "-subj", subject, "-keyout", key, "-out", crt, *words, *signer)

    def issue(self, file, subject, usage, names=(), days=DAYS):
        """FILE.crt and FILE.key; `names` are such as "DNS:localhost", "IP:127.0.0.1"."""
        crt, key = self.directory / f"{file}.crt", self.directory / f"{file}.key"
        extensions = ["basicConstraints=critical,CA:FALSE",
                      "keyUsage=critical,digitalSignature,keyEncipherment",
                      f"extendedKeyUsage={usage}", "authorityKeyIdentifier=keyid"]
        if names:
            extensions.append("subjectAltName=" + ",".join(names))
        self.make(crt, key, subject, extensions, ["-CA", self.crt, "-CAkey", self.key],
                  days)
        return crt, key

    def expired(self, crt=None, key=None):
        """A file with the certificate `crt` that we issued, or our own, after its time."""
        path = self.directory / f"{(crt or self.crt).stem}-expired.crt"
        request, signer = ["-in", self.crt], ["-signkey", self.key]
        if crt:
            made = openssl("x509", "-in", crt, "-x509toreq", "-copy_extensions", "copyall",
                           "-signkey", key).stdout
            (self.directory / "expired.csr").write_bytes(made)
            request = ["-req", "-in", self.directory / "expired.csr", "-copy_extensions", "copyall"]
            signer = ["-CA", self.crt, "-CAkey", self.key, "-set_serial", 2]
        openssl("x509", *request, *signer, "-days", -1, "-out", path)
        return path


def make_signing_key(private, public):
    """A key pair that service account tokens are signed with."""
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", private)
    openssl("pkey", "-in", private, "-pubout", "-out", public)
