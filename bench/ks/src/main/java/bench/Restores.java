package bench;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.StateRestoreListener;

/** Adds up what has been restored, and says so in the form that the harness reads. Stores are restored by more than one thread. */
final class Restores implements StateRestoreListener {
  private long records;
  private long begin;
  private long end;
  private final Map<TopicPartition, Begin> begins = new HashMap<>();

  private record Begin(long at, long offset) {}

  @Override
  public synchronized void onRestoreStart(TopicPartition partition, String store, long from, long to) {
    if (begin == 0) {
      begin = System.currentTimeMillis();
    }
    begins.put(partition, new Begin(System.currentTimeMillis(), from));
  }

  @Override
  public synchronized void onBatchRestored(TopicPartition partition, String store, long offset, long number) {
    records += number;
  }

  @Override
  public synchronized void onRestoreEnd(TopicPartition partition, String store, long number) {
    end = System.currentTimeMillis();
    var began = begins.remove(partition);
    System.out.printf("RESTORED at=%d task=0_%d start=%d records=%d took_ms=%d%n", end, partition.partition(), began.offset, number, end - began.at);
  }

  synchronized void print() {
    System.out.printf("RUNNING at=%d restored=%d restore_ms=%d%n", System.currentTimeMillis(), records, end - begin);
  }
}
