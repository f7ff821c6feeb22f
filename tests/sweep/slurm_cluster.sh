# shellcheck shell=sh
# A Slurm of one node on this machine, for a test: controller, node daemon and munge, all of them our children, in a folder of their own, on loopback.
# Source it; `slurm_start FOLDER` leaves SLURM_CONF exported (0; or 1 after a line on why not), `slurm_stop` ends what was started, by its process id.

slurm_pids=

slurm_missing() { # what is not installed, in one word; nothing when all is there
  for program in slurmctld slurmd munged sbatch squeue scontrol; do
    command -v $program >/dev/null 2>&1 || { echo $program; return; }
  done
}

slurm_wait_for() { # SECONDS COMMAND...
  tries=$(($1 * 10))
  shift
  while [ $tries -gt 0 ]; do
    "$@" >/dev/null 2>&1 && return 0
    tries=$((tries - 1))
    sleep 0.1
  done
  return 1
}

# A port that nobody listens on, and the next two as well.
slurm_port() {
  port=$((17000 + $$ % 20000))
  while ss -Hltn 2>/dev/null | grep -qE ":($port|$((port + 1))|$((port + 2))) "; do
    port=$((port + 3))
  done
}

slurm_start() {
  base=$1
  mkdir -p "$base/state" "$base/spool" && chmod 755 "$base"
  dd if=/dev/urandom of="$base/munge.key" bs=128 count=1 2>/dev/null
  chmod 600 "$base/munge.key"
  slurm_port
  cat >"$base/slurm.conf" <<END
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$base/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
MaxArraySize=21
SlurmctldPort=$port
SlurmctldPidFile=$base/slurmctld.pid
SlurmdPidFile=$base/slurmd.pid
StateSaveLocation=$base/state
SlurmdSpoolDir=$base/spool
SlurmctldLogFile=$base/slurmctld.log
SlurmdLogFile=$base/slurmd.log
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=4 RealMemory=1000 State=UNKNOWN
PartitionName=debug Nodes=n1 Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
END
  export SLURM_CONF="$base/slurm.conf"
  munged --foreground --force --key-file="$base/munge.key" --socket="$base/munge.socket" --pid-file="$base/munge.pid" --log-file="$base/munge.log" \
    --seed-file="$base/munge.seed" >"$base/munge.out" 2>&1 &
  slurm_pids="$!"
  slurm_wait_for 10 test -S "$base/munge.socket" || { echo "munge does not start: $(tail -n 1 "$base/munge.out")"; return 1; }
  slurmctld -D -c -f "$SLURM_CONF" >"$base/slurmctld.out" 2>&1 &
  slurm_pids="$! $slurm_pids"
  slurm_wait_for 20 scontrol ping || { echo "the controller does not start: $(tail -n 1 "$base/slurmctld.out")"; return 1; }
  slurmd -D -N n1 -f "$SLURM_CONF" >"$base/slurmd.out" 2>&1 &
  slurm_pids="$! $slurm_pids"
  slurm_wait_for 20 sh -c 'sinfo -h -o %t | grep -qE "^(idle|mix|alloc)$"' || { echo "the node does not come up: $(tail -n 1 "$base/slurmd.out")"; return 1; }
}

slurm_ended() { # dead children wait for us as zombies
  case $(ps -o stat= -p "$1") in
  '' | Z*) return 0 ;;
  esac
  return 1
}

slurm_stop() {
  scancel --quiet -u "$(id -un)" >/dev/null 2>&1
  sleep 0.5
  for pid in $slurm_pids; do
    kill "$pid" 2>/dev/null
  done
  for pid in $slurm_pids; do
    slurm_wait_for 10 slurm_ended "$pid" || kill -9 "$pid" 2>/dev/null
  done
  wait
  slurm_pids=
}
