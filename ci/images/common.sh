# What the entry points share. Sourced, never run.

# Prints the variable $1, or the content of the file that ${1}_FILE names, as the official images do for secrets.
value() {
    local file="${1}_FILE"
    if [ -n "${!file:-}" ]; then cat "${!file}"; else printf '%s' "${!1:-}"; fi
}

# Starts this entry point again as user $1 when it runs as root: no server here is meant to run as root.
drop_root() {
    local user=$1
    shift
    [ "$(id -u)" != 0 ] || exec setpriv --reuid="$user" --regid="$user" --init-groups "$0" "$@"
}

# Runs what was mounted into the folder for first starts: shell scripts here, SQL through the command in "$@".
first_start_files() {
    local file
    for file in /docker-entrypoint-initdb.d/*; do
        case $file in
            *.sh) echo "$0: running $file"; if [ -x "$file" ]; then "$file"; else . "$file"; fi ;;
            *.sql) echo "$0: running $file"; "$@" <"$file" ;;
            *.sql.gz) echo "$0: running $file"; gunzip -c "$file" | "$@" ;;
        esac
    done
}

# Quotes $1 as a MySQL string.
quoted() {
    local text=${1//\\/\\\\} quote="'"
    printf "'%s'" "${text//$quote/$quote$quote}"
}

# Quotes $1 as a MySQL name.
named() { printf '`%s`' "${1//\`/\`\`}"; }
