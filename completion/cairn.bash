# SPDX-License-Identifier: Apache-2.0
# bash completion for cairn: the program itself knows the candidates.

_cairn() {
	local words=() word line current cut candidates=()
	local IFS=$' \t\n'

	# The words up to the cursor as the shell will see them: readline also
	# breaks at '@' and '=', which belong to our words.
	line=${COMP_LINE:0:COMP_POINT}
	word=""
	local i c quote="" started=""
	for ((i = 0; i < ${#line}; i++)); do
		c=${line:i:1}
		if [[ $quote ]]; then
			if [[ $c == "$quote" ]]; then quote=; else word+=$c; fi
		elif [[ $c == "\\" ]]; then
			((++i))
			word+=${line:i:1}
			started=1
		elif [[ $c == [\'\"] ]]; then
			quote=$c
			started=1
		elif [[ $c == [$' \t'] ]]; then
			[[ $started ]] && words+=("$word")
			word=
			started=
		else
			word+=$c
			started=1
		fi
	done
	words+=("$word")
	current=$((${#words[@]} - 1))
	((current > 0)) || return 0

	mapfile -t candidates < <("${words[0]}" complete "$current" "${words[@]}" 2>/dev/null)
	COMPREPLY=()

	# Readline replaces only what follows the last break, and says what that is; it
	# keeps an '@' with what follows while `shopt hostcomplete` is on.
	cut=$word
	if [[ $# -ge 2 && $word == *"$2" ]]; then
		cut=$2
	elif [[ $COMP_WORDBREAKS == *@* && $word == *@* ]]; then
		cut=${word##*@}
	elif [[ $COMP_WORDBREAKS == *=* && $word == *=* ]]; then
		cut=${word##*=}
	fi
	for c in "${candidates[@]}"; do
		if [[ $c == :dirs || $c == :files ]]; then
			compopt -o filenames 2>/dev/null
			mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -"${c:1:1}" -- "$cut")
			continue
		fi
		c=${c:$((${#word} - ${#cut}))}
		[[ $quote ]] || printf -v c %q "$c"
		c=${c//\\@/@}
		COMPREPLY+=("$c")
	done
	[[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *@ ]] && compopt -o nospace 2>/dev/null
	return 0
}
complete -F _cairn cairn
