#!/usr/bin/env bash
# A run over several hosts by ssh, with the mpirun on PATH, MPICH's or Open MPI's:
#
#     launch/hosts.sh h1:4,h2:3,h3:3 [flags of decentorth.run]
#
# Every host needs the same Python environment and working folder at the same paths, and ssh from the first without a question.
# INTERFACE=eth0 names the network between them where a host has several. Where a host is lost, ssh gives it up after half a minute:
# Open MPI's mpirun waits for that.
set -euo pipefail
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }
case ${1-} in --help | -h) usage && exit ;; esac
[ $# -ge 1 ] || { usage >&2; exit 2; }
host='[A-Za-z0-9][A-Za-z0-9_.@-]*:[1-9][0-9]{0,5}'
[[ $1 =~ ^$host(,$host)*$ ]] || { echo "hosts.sh: hosts and their ranks must be written as h1:4,h2:3,h3:3, got '$1'" >&2; exit 2; }
hosts=$1 ranks=0
shift
IFS=, read -ra each <<< "$hosts"
for host in "${each[@]}"; do ranks=$((ranks + ${host##*:})); done
keepalive="-o ServerAliveInterval=10 -o ServerAliveCountMax=3"
launcher=$(command -v mpirun)
if [[ $("$launcher" --version) == *"Open MPI"* ]]; then
  export PRTE_MCA_plm_ssh_args=${PRTE_MCA_plm_ssh_args:-$keepalive}
  options=(--host "$hosts" --bind-to none ${INTERFACE:+--mca btl_tcp_if_include "$INTERFACE"})
else
  export HYDRA_LAUNCHER_EXTRA_ARGS=${HYDRA_LAUNCHER_EXTRA_ARGS:-$keepalive}
  options=(-hosts "$hosts" -launcher ssh ${INTERFACE:+-iface "$INTERFACE"})
  [ -z "${INTERFACE:-}" ] || export UCX_NET_DEVICES=$INTERFACE
fi
exec "$launcher" "${options[@]}" -n "$ranks" "$(command -v python)" -m decentorth.run "$@"
