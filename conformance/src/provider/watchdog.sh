# $1 is the folder of the servers, $2 the label of the containers. Input ends when the process that started this one does.
trap '' INT TERM HUP QUIT

while read -r word; do
    [ "$word" = done ] && exit 0
done

sweep() {
    for process in /proc/[0-9]*; do
        case $(readlink "$process/cwd") in "$1"/*) kill -KILL "${process#/proc/}" ;; esac
    done
    command -v docker >/dev/null || return 0
    for container in $(docker ps --all --quiet --filter "label=$2"); do
        docker unpause "$container"
        docker rm --force --volumes "$container"
    done
}

# Twice, since the daemon may still be making a container that it was asked for.
sweep "$1" "$2"
sleep 1
sweep "$1" "$2"

# The System V segment of a killed PostgreSQL: key and id are the seventh line of its lock file.
for lock in "$1"/*/data/postmaster.pid; do
    id=$(sed -n '7s/^ *[0-9]* *//p' "$lock")
    [ -n "$id" ] && ipcrm -m "$id"
done
rm -rf "$1"
