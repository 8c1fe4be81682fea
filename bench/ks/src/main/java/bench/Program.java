package bench;

import java.time.Duration;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/** The benchmark's workloads on Kafka Streams, set up as somebody would who has read its tuning guide. The command line is in bench/README.md. */
public final class Program {
  private static final Map<String, String> DEFAULTS = Map.of(
      "--brokers", "127.0.0.1:9092", "--in", "in", "--out", "out", "--app", "bench-ks", "--state", "", "--guarantee", "alos",
      "--threads", "2", "--commit-ms", "1000", "--cache", "67108864", "--instance", "a");
  private static final String WAIT = "--wait-us";

  public static void main(String[] args) throws Exception {
    if (args.length == 0) {
      throw new IllegalArgumentException("usage: Program map|count|wordcount|keep|tally|recover --brokers B --app ID --state DIR ...");
    }
    var options = options(args);
    var config = config(options);
    var streams = new KafkaStreams(topology(args[0], options, config), config);
    var failed = new CountDownLatch(1);
    streams.setUncaughtExceptionHandler(e -> {
      e.printStackTrace();
      failed.countDown();
      return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    var restores = new Restores();
    streams.setGlobalStateRestoreListener(restores);
    streams.setStateListener((now, was) -> {
      if (now == KafkaStreams.State.RUNNING) {
        restores.print();
      }
    });
    var leave = CloseOptions.timeout(Duration.ofSeconds(30))
        .withGroupMembershipOperation(CloseOptions.GroupMembershipOperation.LEAVE_GROUP); // or the next start waits for the session to end
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(leave)));
    streams.start();
    failed.await();
    System.exit(1);
  }

  private static Map<String, String> options(String[] args) {
    var options = new HashMap<>(DEFAULTS);
    for (int i = 1; i < args.length; i += 2) {
      if (!(options.containsKey(args[i]) || args[i].contains(".") || args[i].equals(WAIT)) || i + 1 == args.length) {
        throw new IllegalArgumentException("unknown option, or one without a value: " + args[i]);
      }
      options.put(args[i], args[i + 1]);
    }
    return options;
  }

  private static Properties config(Map<String, String> options) {
    var p = new Properties();
    p.put("bootstrap.servers", options.get("--brokers"));
    p.put("application.id", options.get("--app"));
    p.put("state.dir", options.get("--state"));
    p.put("processing.guarantee", options.get("--guarantee").equals("eos") ? "exactly_once_v2" : "at_least_once");
    p.put("num.stream.threads", options.get("--threads"));
    p.put("commit.interval.ms", options.get("--commit-ms"));
    p.put("statestore.cache.max.bytes", options.get("--cache"));
    p.put("topology.optimization", "all");
    p.put("buffered.records.per.partition", "5000");
    p.put("producer.acks", "all");
    p.put("producer.linger.ms", "5"); // Streams' own default of 100 would hide behind batching
    p.put("producer.batch.size", "262144");
    p.put("producer.buffer.memory", "67108864");
    p.put("consumer.auto.offset.reset", "earliest");
    p.put("consumer.max.poll.records", "5000");
    p.put("consumer.max.partition.fetch.bytes", "4194304");
    p.put("consumer.receive.buffer.bytes", "1048576");
    p.put("restore.consumer.max.poll.records", "10000");
    options.forEach((name, value) -> {
      if (name.contains(".")) {
        p.put(name.substring(2), value); // any setting of Streams, for what only some runs need
      }
    });
    return p;
  }

  private static Topology topology(String workload, Map<String, String> options, Properties config) {
    var b = new StreamsBuilder();
    var string = Serdes.String();
    if (workload.equals("tally")) {
      Tally.build(b, options.get("--in"), options.get("--out"), options.get("--instance"));
      return b.build(config);
    }
    if (workload.equals("recover")) {
      Recover.build(b, options.get("--in"), options.get("--out"), Long.parseLong(options.getOrDefault(WAIT, "0")));
      return b.build(config);
    }
    KStream<String, String> source = b.stream(options.get("--in"), Consumed.with(string, string));
    switch (workload) {
      case "map" -> source.mapValues(v -> v.toUpperCase(Locale.ROOT)).to("out", Produced.with(string, string));
      case "count" -> source.groupByKey(Grouped.with(string, string))
          .count(Materialized.as("c")).toStream().to("out", Produced.with(string, Serdes.Long()));
      case "wordcount" -> source.flatMapValues(line -> Arrays.asList(line.split(" ")))
          .groupBy((key, word) -> word, Grouped.with(string, string))
          .count(Materialized.as("c")).toStream().to("out", Produced.with(string, Serdes.Long()));
      case "keep" -> source.groupByKey(Grouped.with(string, string))
          .reduce((first, next) -> first, Materialized.as("r")).toStream().to("out", Produced.with(string, string));
      default -> throw new IllegalArgumentException("no workload " + workload + "; there are map, count, wordcount and keep");
    }
    return b.build(config);
  }
}
