# Installs the Debian packages of packages.txt that are missing.

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() {
  printf 'dev: %s\n' "$*" >&2
  exit 1
}

# missing_packages GROUP...: the packages of these groups that are not there.
missing_packages() {
  local group package
  while read -r group package; do
    [[ " $* " == *" $group "* ]] || continue
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null |
      grep -q '^install ok installed$' || echo "$package"
  done < <(grep -v '^#' packages.txt)
}

# need GROUP...: installs what is missing; says what it does.
need() {
  local missing
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -eq 0 ] && return
  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null ||
      die "not root and no sudo; install these first: ${missing[*]}"
    sudo=(sudo)
  fi
  local log
  log=$(mktemp)
  {
    "${sudo[@]}" apt-get update &&
      "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends "${missing[@]}"
  } >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    die "apt-get failed; the whole log is $log"
  }
  rm -f "$log"
}
