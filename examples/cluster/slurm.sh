#!/bin/bash
# A job on the nodes of a Slurm allocation: `sbatch slurm.sh TASKS JOB`. NOT RUN by us: we had no Slurm.
#
# Seatrial with its extra `ray` has to be on the PATH of every node, in the same version. JOB is a folder that the first
# node can write to; when the time of the allocation is over, the same command goes on with it.
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@60
set -euo pipefail
tasks=$1 job=$2 port=6379

export SEATRIAL_STATE_DIR=${SLURM_TMPDIR:-/tmp}/seatrial-$SLURM_JOB_ID
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN
RAY_AUTH_TOKEN=$(python3 -c 'import secrets; print(secrets.token_hex(32))')

head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(srun --nodes=1 --ntasks=1 -w "$head" hostname -I | cut -d ' ' -f 1)

srun --nodes=1 --ntasks=1 -w "$head" --overlap \
  ray start --head --node-ip-address="$address" --port=$port --num-cpus=0 --include-dashboard=false --block &
workers=$((SLURM_JOB_NUM_NODES - 1))
[ "$workers" -eq 0 ] || srun --nodes=$workers --ntasks=$workers --exclude="$head" --overlap bash -c \
  "until ray start --address=$address:$port --block; do sleep 2; done" &

command=(seatrial run "$tasks" -a oracle -o "$job")
[ ! -e "$job/job.json" ] || command=(seatrial resume "$job")
srun --nodes=1 --ntasks=1 -w "$head" --overlap bash -c \
  "until ray health-check --address $address:$port; do sleep 2; done; exec \"\$@\"" bash \
  "${command[@]}" --engine ray --address "$address:$port" &
wait $! # Slurm ends the rest with the allocation
