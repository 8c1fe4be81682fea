#!/usr/bin/env bash
# Real Kafka brokers (KRaft, combined roles) on loopback. Needs Java 17 and, once, Maven.
#
#   kafka.sh start DIR [NODES [FIRST_PORT]]   starts NODES brokers (1), waits until they answer, prints the bootstrap address
#   kafka.sh node DIR N                       starts broker N of DIR again, with the settings it had
#   kafka.sh stop DIR                         stops all brokers of DIR and waits for them
#   kafka.sh libs                             fetches the jars if they are not there, prints their folder
#
# Broker i (from 1) listens for clients on FIRST_PORT+2(i-1) (29092) and for the quorum on the port after it. Its data, log and process id are
# in DIR/i. Environment:
#   KAFKA_PROPS       more lines for server.properties
#   KAFKA_HEAP        heap of a broker (512m)
#   KAFKA_PARENT      a process id: the brokers are killed when that process is gone
#   XDG_CACHE_HOME    the jars are kept in $XDG_CACHE_HOME/understudy-kafka/libs (~/.cache)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
libs=${XDG_CACHE_HOME:-$HOME/.cache}/understudy-kafka/libs

fetch_libs() {
  ls "$libs"/kafka_2.13-*.jar > /dev/null 2>&1 && return
  command -v mvn > /dev/null || { echo "kafka.sh: no mvn: install Maven, or put Kafka's jars into $libs" >&2; exit 3; }
  mkdir -p "$(dirname "$libs")"
  # Downloaded beside and renamed, so that a broken download or a second process leaves no half of it.
  local tmp; tmp=$(mktemp -d "$libs.XXXXXX")
  cp "$here/pom.xml" "$tmp/pom.xml"
  mvn -q -B -f "$tmp/pom.xml" dependency:copy-dependencies -DoutputDirectory="$tmp/libs" -DincludeScope=runtime >&2
  mv -T "$tmp/libs" "$libs" 2> /dev/null || ls "$libs"/kafka_2.13-*.jar > /dev/null
  rm -rf "$tmp"
}

java_run() { java "-Xmx${KAFKA_HEAP:-512m}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "-Dlog4j2.configurationFile=$here/log4j2.xml" -cp "$libs/*" "$@"; }

# write_properties DIR NODES PORT I
write_properties() {
  local dir=$1 nodes=$2 port=$3 i=$4 voters="" k rf
  for ((k = 1; k <= nodes; k++)); do voters+="${voters:+,}$k@127.0.0.1:$((port + 2 * k - 1))"; done
  rf=$((nodes < 3 ? nodes : 3))
  mkdir -p "$dir/$i"
  cat > "$dir/$i/server.properties" << P
process.roles=broker,controller
node.id=$i
controller.quorum.voters=$voters
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:$((port + 2 * i - 2)),CONTROLLER://127.0.0.1:$((port + 2 * i - 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$((port + 2 * i - 2))
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$dir/$i/data
auto.create.topics.enable=false
num.partitions=1
default.replication.factor=$rf
offsets.topic.replication.factor=$rf
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=$rf
transaction.state.log.min.isr=$((rf > 1 ? 2 : 1))
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=$rf
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=100
log.retention.hours=-1
${KAFKA_PROPS:-}
P
}

# launch DIR I: the broker in a session of its own, with a watchdog if there is a process to outlive.
launch() {
  local n=$1/$2
  if [ ! -e "$n/data/meta.properties" ]; then
    java_run kafka.tools.StorageTool format -t understudyAAAAAAAAAAAA -c "$n/server.properties" > "$n/format.log" 2>&1 \
      || { cat "$n/format.log" >&2; exit 1; }
  fi
  ( trap '' HUP; exec java "-Xmx${KAFKA_HEAP:-512m}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 "-Dlog4j2.configurationFile=$here/log4j2.xml" \
      -cp "$libs/*" kafka.Kafka "$n/server.properties" ) >> "$n/log" 2>&1 < /dev/null &
  local pid=$!
  echo "$pid" > "$n/pid"
  if [ -n "${KAFKA_PARENT:-}" ]; then
    ( trap '' HUP INT
      while alive "$KAFKA_PARENT"; do alive "$pid" || exit 0; sleep 1; done
      kill -KILL "$pid" 2> /dev/null || true ) > /dev/null 2>&1 < /dev/null &
  fi
}

# alive PID: whether it runs; a dead one that nobody collected does not.
alive() { case $(ps -o stat= -p "$1" 2> /dev/null) in "" | Z*) return 1 ;; esac; }

port_of() { sed -n 's/^listeners=PLAINTEXT:\/\/127.0.0.1:\([0-9]*\),.*/\1/p' "$1/server.properties"; }

# await DIR I: until the broker accepts connections.
await() {
  local n=$1/$2 port t
  port=$(port_of "$n")
  for ((t = 0; ; t++)); do
    alive "$(cat "$n/pid")" || { echo "kafka.sh: broker $2 died:" >&2; tail -20 "$n/log" >&2; exit 1; }
    (exec 3<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null && return
    ((t < 600)) || { echo "kafka.sh: broker $2 is not up after 60 s, see $n/log" >&2; exit 1; }
    sleep 0.1
  done
}

start() {
  local dir=$1 nodes=$2 port=$3 i boot=""
  mkdir -p "$dir"; dir=$(cd "$dir" && pwd)
  for ((i = 1; i <= nodes; i++)); do
    write_properties "$dir" "$nodes" "$port" "$i"
    launch "$dir" "$i"
    boot+="${boot:+,}127.0.0.1:$((port + 2 * i - 2))"
  done
  for ((i = 1; i <= nodes; i++)); do await "$dir" "$i"; done
  echo "$boot"
}

stop() {
  local p pid t
  for p in "$1"/*/pid; do [ -e "$p" ] && kill "$(cat "$p")" 2> /dev/null || true; done
  for p in "$1"/*/pid; do
    [ -e "$p" ] || continue
    pid=$(cat "$p")
    for ((t = 0; t < 150; t++)); do alive "$pid" || break; sleep 0.1; done
    kill -KILL "$pid" 2> /dev/null || true
    rm -f "$p"
  done
}

command -v java > /dev/null || { echo "kafka.sh: no java: install a Java 17 runtime" >&2; exit 3; }
case ${1:-} in
  start) fetch_libs; start "${2:?usage: kafka.sh start DIR [NODES [FIRST_PORT]]}" "${3:-1}" "${4:-29092}" ;;
  node) fetch_libs; launch "${2:?usage: kafka.sh node DIR N}" "${3:?usage: kafka.sh node DIR N}"; await "$2" "$3" ;;
  stop) stop "${2:?usage: kafka.sh stop DIR}" ;;
  libs) fetch_libs; echo "$libs" ;;
  *) sed -n '2,18s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
esac
