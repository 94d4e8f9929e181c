#!/usr/bin/env bash
# A run over several hosts by ssh, with the mpirun on PATH, MPICH's or Open MPI's:
#
#     launch/hosts.sh h1:4,h2:3,h3:3 [flags of decentorth.run]
#
# Every host needs the same Python environment and working folder at the same paths, and ssh from the first without a question.
# INTERFACE=eth0 names the network between them where a host has several. Where a host is lost, ssh gives it up after half a minute:
# Open MPI's mpirun waits for that.
set -euo pipefail
hosts=${1:?hosts and their ranks, as h1:4,h2:3,h3:3}
shift
ranks=0
for host in ${hosts//,/ }; do ranks=$((ranks + ${host##*:})); done
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
