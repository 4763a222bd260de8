# Completion of `punctual` in fish. The installed program lists its directives and the options of
# `punctual top`.
complete -c punctual -n __fish_use_subcommand -a top -d 'show the activity of a server, and its next timers and jobs'
complete -c punctual -n __fish_use_subcommand -l help -s h -d 'print a summary'
complete -c punctual -n __fish_use_subcommand -l version -s v -d 'print the version'
complete -c punctual -n 'not __fish_seen_subcommand_from top; and string match -q -- "-*" (commandline -ct)' \
  -a '(punctual --directives | string replace -r "^" -- "--")'
complete -c punctual -n '__fish_seen_subcommand_from top; and string match -q -- "-*" (commandline -ct)' \
  -a '(punctual top --help | string match -ar -- "--[a-z]+")'
