#!/usr/bin/env bash
# A run on ranks of this machine that goes on where it stopped:
#
#     launch/local.sh RANKS FOLDER [flags of decentorth.run]
#
# The first call begins; the same call again, after a stop or a crash, goes on from the newest checkpoint.
set -euo pipefail
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }
case ${1-} in --help | -h) usage && exit ;; esac
[ $# -ge 2 ] || { usage >&2; exit 2; }
[[ $1 =~ ^[1-9][0-9]{0,5}$ ]] || { echo "local.sh: the number of ranks must be at least 1, got '$1'" >&2; exit 2; }
ranks=$1 out=$2
shift 2
checkpoints=("$out"/checkpoints/[0-9]*)
if [ -e "${checkpoints[0]}" ]; then
  set -- "$@" --resume "$out"
else
  set -- --checkpoint-every "${CHECKPOINT_EVERY:-10m}" "$@" --out "$out"
fi
exec mpirun -n "$ranks" python -m decentorth.run "$@"
