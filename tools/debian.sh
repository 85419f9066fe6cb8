# Sourced by tools/test-wheel, tools/test-deb and tools/test-install: a fresh Debian 12 in a folder, apart from this
# machine's packages. Needs root and debootstrap.
#
#   debian_possible             whether one can be made here
#   debian_new FOLDER           a fresh one; VARVE_CHROOTS (/var/tmp/varve-chroots) keeps the one that it is copied from
#   debian_run FOLDER COMMAND…  runs in it
#   debian_remove FOLDER
#
# Names of servers, certificates and pip's settings are taken from this machine.

debian_base=${VARVE_CHROOTS:-/var/tmp/varve-chroots}/bookworm

debian_possible() { [[ $EUID -eq 0 ]] && command -v debootstrap unshare > /dev/null; }

debian_new() {
  if [[ ! -d $debian_base ]]; then
    rm -rf "$debian_base.part"
    mkdir -p "$debian_base.part"
    echo "making a Debian 12 in $debian_base, once" >&2
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv bookworm "$debian_base.part" \
      "${VARVE_DEBIAN_MIRROR:-http://deb.debian.org/debian}" > "$debian_base.log" 2>&1 ||
      { tail -5 "$debian_base.log" >&2; return 1; }
    mv "$debian_base.part" "$debian_base"
  fi
  rm -rf "$1"
  mkdir -p "$(dirname "$1")"
  cp -a --reflink=auto "$debian_base" "$1"
  local file
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
    if [[ -f $file ]]; then cp -L "$file" "$1$file"; fi
  done
}

debian_run() {
  local root=$1 name settings=()
  shift
  for name in PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_CERT http_proxy https_proxy no_proxy; do
    if [[ -n ${!name:-} ]]; then settings+=("$name=${!name}"); fi
  done
  # Its mounts and processes end with it.
  # shellcheck disable=SC2016  # expanded by the inner shell
  unshare --mount --pid --fork --kill-child bash -c '
    set -e; root=$1; shift
    mount --make-rprivate /
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" "$@"' sh "$root" \
    /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore "${settings[@]}" "$@"
}

debian_remove() { rm -rf "$1"; }
