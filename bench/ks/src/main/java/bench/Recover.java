package bench;

import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;

/** The topology of the recovery benchmark: each record waits, and is passed on. */
final class Recover {
  private Recover() {}

  static void build(StreamsBuilder b, String in, String out, long waitMicros) {
    var string = Serdes.String();
    var bytes = Serdes.ByteArray();
    b.stream(in, Consumed.with(string, bytes))
        .mapValues(value -> waited(value, waitMicros))
        .to(out, Produced.with(string, bytes));
  }

  private static byte[] waited(byte[] value, long micros) {
    if (micros > 0) {
      try {
        TimeUnit.MICROSECONDS.sleep(micros);
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }
    return value;
  }
}
