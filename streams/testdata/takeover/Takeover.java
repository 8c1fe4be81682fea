import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.CloseOptions;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * The Java side of the takeover: the topology of `takeover` in app_takeover_test.go, written as a Java program would have it. It runs until
 * a line comes on its standard input, "leave" or "stay": whether its member leaves the group at once, or as Kafka Streams does by itself,
 * when its session is over.
 */
public final class Takeover {
  public static void main(String[] args) throws Exception {
    var p = new Properties();
    p.put("bootstrap.servers", args[0]);
    p.put("application.id", args[1]);
    p.put("state.dir", args[2]);
    p.put("commit.interval.ms", "100");
    p.put("consumer.auto.offset.reset", "earliest");
    p.put("consumer.session.timeout.ms", "5000");
    for (var more : Arrays.asList(args).subList(4, args.length)) {
      var kv = more.split("=", 2);
      p.put(kv[0], kv[1]);
    }
    var streams = new KafkaStreams(topology(args[3]).build(p), p);
    streams.setUncaughtExceptionHandler(e -> {
      System.out.println("failed " + e);
      e.printStackTrace();
      Runtime.getRuntime().halt(1);
      return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
    });
    streams.setStateListener((now, was) -> System.out.println("state " + now));
    streams.start();
    boolean leave = "leave".equals(new String(System.in.readNBytes(5)).trim());
    streams.close(CloseOptions.groupMembershipOperation(
        leave ? CloseOptions.GroupMembershipOperation.LEAVE_GROUP : CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP));
    System.out.println("closed");
  }

  static StreamsBuilder topology(String prefix) {
    var b = new StreamsBuilder();
    var string = Serdes.String();
    var lines = b.stream(prefix + "lines", Consumed.with(string, string));
    var counts = lines.flatMapValues(Takeover::words)
        .groupBy((key, word) -> word, Grouped.with(string, string))
        .count(Materialized.as("word-counts"));
    counts.toStream().to(prefix + "counts", Produced.with(string, Serdes.Long()));
    counts.filter((word, n) -> n % 2 == 0).toStream().to(prefix + "even", Produced.with(string, Serdes.Long()));

    b.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("line-numbers"), string, Serdes.Long()));
    lines.process(Numbers::new, "line-numbers").to(prefix + "numbers", Produced.with(string, Serdes.Long()));

    b.table(prefix + "stock", Consumed.with(string, Serdes.Long()), Materialized.as("stock-rows"))
        .filter((item, n) -> n >= 10)
        .mapValues(n -> n * 2)
        .toStream().to(prefix + "plenty", Produced.with(string, Serdes.Long()));
    return b;
  }

  static List<String> words(String line) {
    return Arrays.stream(line.toLowerCase(Locale.ROOT).split("\\P{L}+")).filter(w -> !w.isEmpty()).toList();
  }

  /** Counts the lines of its partition. */
  static final class Numbers extends ContextualProcessor<String, String, String, Long> {
    @Override
    public void process(Record<String, String> line) {
      KeyValueStore<String, Long> rows = context().getStateStore("line-numbers");
      var n = rows.get("lines");
      n = n == null ? 1 : n + 1;
      rows.put("lines", n);
      context().forward(new Record<>("partition " + context().taskId().partition(), n, line.timestamp()));
    }
  }
}
