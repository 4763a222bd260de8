# Completion of `punctual` in bash. The installed program lists its directives and the options of
# `punctual top`.
_punctual() {
  local word="${COMP_WORDS[COMP_CWORD]}" names=""
  if [[ "$word" != -* ]]; then
    # Other words are files: the configuration, or the value of an option.
    ((COMP_CWORD > 1)) || names=top
  elif [[ "${COMP_WORDS[1]}" == top ]]; then
    names="$("$1" top --help 2>/dev/null | grep -oE -- '--[a-z]+')"
  else
    names="--help --version $("$1" --directives 2>/dev/null | sed 's/^/--/')"
  fi
  mapfile -t COMPREPLY < <(compgen -W "$names" -- "$word")
}
complete -o default -F _punctual punctual
