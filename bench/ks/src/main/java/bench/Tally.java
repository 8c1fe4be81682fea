package bench;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * The topology of the rebalance scenarios: the number of records of each key, kept beside the last of them so that the state is of a realistic size. An update
 * is put out as the count and the name of the instance that counted.
 */
final class Tally {
  private Tally() {}

  static void build(StreamsBuilder b, String in, String out, String instance) {
    var string = Serdes.String();
    var bytes = Serdes.ByteArray();
    byte[] name = instance.getBytes(StandardCharsets.UTF_8);
    b.stream(in, Consumed.with(string, bytes))
        .groupByKey(Grouped.with(string, bytes))
        .aggregate(() -> new byte[Long.BYTES], (key, value, row) -> counted(value, row),
            Materialized.<String, byte[], KeyValueStore<Bytes, byte[]>>as("c").withKeySerde(string).withValueSerde(bytes))
        .toStream()
        .mapValues(row -> ByteBuffer.allocate(Long.BYTES + name.length).put(row, 0, Long.BYTES).put(name).array())
        .to(out, Produced.with(string, bytes));
  }

  /** The row after one more record: the count, and the record. */
  private static byte[] counted(byte[] value, byte[] row) {
    return ByteBuffer.allocate(Long.BYTES + value.length).putLong(ByteBuffer.wrap(row).getLong() + 1).put(value).array();
  }
}
