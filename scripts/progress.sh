# Sourced by other scripts. Requires $log: the file that gets the output of long commands.

# step TEXT COMMAND...: runs COMMAND with its output in $log and shows TEXT with the seconds that it takes.
# On failure shows the end of the log and returns the command's status.
step() {
    local text=$1 start=$SECONDS status=0
    shift
    "$@" >>"$log" 2>&1 </dev/null &
    local pid=$!
    if [ -t 2 ]; then
        while kill -0 "$pid" 2>/dev/null; do
            printf '\r  %s … %d s' "$text" $((SECONDS - start)) >&2
            sleep 0.2
        done
        printf '\r\033[K' >&2
    else
        printf '  %s …\n' "$text" >&2
    fi
    wait "$pid" || status=$?
    if [ "$status" -ne 0 ]; then
        printf '  %s: failed after %d s. The end of %s:\n' "$text" $((SECONDS - start)) "$log" >&2
        tail -n 25 "$log" | sed 's/^/    /' >&2
        return "$status"
    fi
    printf '  %s: done in %d s\n' "$text" $((SECONDS - start)) >&2
}
