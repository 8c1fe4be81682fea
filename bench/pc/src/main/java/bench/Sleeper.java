package bench;

import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;

/** Makes the calls of records that sleep and notes how long all of them took together: work/sleeper.go in Java. */
final class Sleeper {
    private static final class Lane {
        final AtomicInteger running = new AtomicInteger();
        final AtomicLong seq = new AtomicLong();
    }

    private final int records;
    private final AtomicLong first = new AtomicLong();
    private volatile long last;
    private final AtomicInteger finished = new AtomicInteger();
    private final AtomicLongArray slept; // nanoseconds
    private final ConcurrentHashMap<String, Lane> lanes = new ConcurrentHashMap<>();
    private final AtomicInteger repeated = new AtomicInteger();
    private final AtomicInteger disordered = new AtomicInteger();
    final CountDownLatch done = new CountDownLatch(1);

    Sleeper(int records) {
        this.records = records;
        this.slept = new AtomicLongArray(records);
    }

    void call(String key, String value) {
        first.compareAndSet(0, System.nanoTime());
        if (value.length() != 100 || value.charAt(0) != 's') {
            throw new IllegalArgumentException("a record that is not to sleep: " + value);
        }
        int seq = Integer.parseInt(value.substring(1, 11));
        long nanos = Long.parseLong(value.substring(12, 31)) * 1000;
        Lane lane = lanes.computeIfAbsent(key, k -> new Lane());
        if (lane.running.incrementAndGet() > 1 || lane.seq.getAndSet(seq + 1) > seq) {
            disordered.incrementAndGet();
        }
        sleep(nanos);
        lane.running.decrementAndGet();
        if (slept.getAndSet(seq, Math.max(1, nanos)) != 0) {
            repeated.incrementAndGet();
            return;
        }
        if (finished.incrementAndGet() == records) {
            last = System.nanoTime();
            done.countDown();
        }
    }

    /** Makes the same sleeps on so many threads, without Kafka, and prints the line that the harness reads. */
    void report(int threads) throws InterruptedException {
        AtomicInteger next = new AtomicInteger();
        Thread[] all = new Thread[threads];
        long began = System.nanoTime();
        for (int t = 0; t < threads; t++) {
            all[t] = new Thread(() -> {
                for (int i = next.getAndIncrement(); i < records; i = next.getAndIncrement()) {
                    sleep(slept.get(i));
                }
            });
            all[t].start();
        }
        for (Thread t : all) {
            t.join();
        }
        long ideal = System.nanoTime() - began;
        System.out.printf("SLEPT records=%d took_us=%d ideal_us=%d repeated=%d disordered=%d%n", records, (last - first.get()) / 1000, ideal / 1000,
            repeated.get(), disordered.get());
    }

    private static void sleep(long nanos) {
        long until = System.nanoTime() + nanos;
        for (long left = nanos; left > 0; left = until - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
    }
}
