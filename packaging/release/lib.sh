# Functions for `packaging/*/try`. The program calls `without_rust` first, so that nothing is compiled by mistake.

# Removes the Rust compiler from PATH, and this repository from the search paths of languages.
without_rust() {
  local folder kept=()
  IFS=: read -ra folders <<<"$PATH"
  for folder in "${folders[@]}"; do
    [[ -x $folder/cargo || -x $folder/rustc ]] || kept+=("$folder")
  done
  PATH="$(IFS=:; echo "${kept[*]}")"
  export PATH
  unset PYTHONPATH RUBYLIB NODE_PATH GOFLAGS CARGO_HOME
}

# Prints a checked fact with the seconds that it took: checked 3.21 "pip install punctual-server, PING".
checked() {
  printf '%-12s %6.2f s  %s\n' "$(basename "$(dirname "$0")")" "$1" "$2"
}

# Prints the seconds since a start, which is a value of $EPOCHREALTIME.
since() {
  echo "$EPOCHREALTIME $1" | awk '{ printf "%.2f", $1 - $2 }'
}

# Waits until a server on a Unix socket answers PING, for at most 20 seconds: ping SOCKET.
ping() {
  python3 - "$1" <<'EOF'
import socket, sys, time
for _ in range(2000):
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(sys.argv[1])
        except OSError:
            time.sleep(0.01)
            continue
        client.sendall(b"PING\r\n")
        reply = client.recv(16)
        sys.exit(0 if reply == b"+PONG\r\n" else f"{sys.argv[1]}: {reply!r} to PING")
sys.exit(f"{sys.argv[1]}: no server")
EOF
}
