package bench;

import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelConsumerOptions.CommitMode;
import io.confluent.parallelconsumer.ParallelConsumerOptions.ProcessingOrder;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** The workload "sleeping" of the failure benchmark on Confluent's parallel consumer. The command line is in ../README.md. */
public final class Program {
    public static void main(String[] args) throws Exception {
        if (args.length == 0 || !args[0].equals("sleeping")) {
            System.err.println("usage: sleeping --brokers B --app ID ...; there is no other workload");
            System.exit(2);
        }
        Map<String, String> flags = new HashMap<>();
        for (int i = 1; i + 1 < args.length; i += 2) {
            flags.put(args[i], args[i + 1]);
        }
        int workers = Integer.parseInt(flags.get("--workers"));
        Sleeper sleeper = new Sleeper(Integer.parseInt(flags.get("--records")));

        Properties p = new Properties();
        p.put(ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, flags.get("--brokers"));
        p.put(ConsumerConfig.GROUP_ID_CONFIG, flags.get("--app"));
        p.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        p.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false); // it commits by itself
        p.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, 5000);
        ParallelStreamProcessor<String, String> processor = ParallelStreamProcessor.createEosStreamProcessor(
            ParallelConsumerOptions.<String, String>builder()
                .consumer(new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer()))
                .ordering(switch (flags.get("--order")) {
                    case "all" -> ProcessingOrder.PARTITION;
                    case "key" -> ProcessingOrder.KEY;
                    default -> ProcessingOrder.UNORDERED;
                })
                .maxConcurrency(workers)
                .commitMode(CommitMode.PERIODIC_CONSUMER_ASYNCHRONOUS)
                .commitInterval(Duration.ofMillis(Long.parseLong(flags.get("--commit-ms"))))
                .build());
        CountDownLatch closed = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                processor.closeDrainFirst(Duration.ofSeconds(30));
            } finally {
                closed.countDown();
            }
        }));
        processor.subscribe(List.of(flags.get("--in")));
        processor.poll(r -> sleeper.call(r.key(), r.value()));
        sleeper.done.await();
        sleeper.report(Integer.parseInt(flags.get("--alone")));
        closed.await();
    }
}
