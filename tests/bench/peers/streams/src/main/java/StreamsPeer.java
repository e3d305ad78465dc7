import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.*;
import java.time.Duration;
import java.time.Instant;
import java.util.*;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.processor.api.*;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.*;

/** Kafka Streams EOS v2 peer: copy, clean, dedup (5 min by order_id, event time), sum (1 min tumbling sum per customer). */
public class StreamsPeer {
  @JsonIgnoreProperties(ignoreUnknown = true)
  public static class Order { public long order_id; public String customer_id, amount, currency, event_time; }
  public static class CleanOrder { public long order_id; public String customer_id; public long amount_cents; public String currency, event_time; }

  static final ObjectMapper JSON = new ObjectMapper();
  static final AtomicLong seen = new AtomicLong(), first = new AtomicLong();

  static long cents(String s) {
    int dot = s.indexOf('.');
    return Long.parseLong(s.substring(0, dot)) * 100 + Long.parseLong(s.substring(dot + 1));
  }

  static abstract class Step extends ContextualProcessor<byte[], byte[], byte[], byte[]> {
    abstract void handle(Record<byte[], byte[]> r) throws Exception;
    @Override public void process(Record<byte[], byte[]> r) {
      if (seen.getAndIncrement() == 0) first.set(System.nanoTime());
      try { handle(r); } catch (Exception e) { context().forward(r, "dlq"); }
    }
  }
  static class Copy extends Step { void handle(Record<byte[], byte[]> r) { context().forward(r, "out"); } }
  static class Clean extends Step {
    void handle(Record<byte[], byte[]> r) throws Exception {
      Order o = JSON.readValue(r.value(), Order.class);
      CleanOrder c = new CleanOrder();
      c.order_id = o.order_id; c.customer_id = o.customer_id; c.amount_cents = cents(o.amount); c.currency = o.currency; c.event_time = o.event_time;
      context().forward(r.withValue(JSON.writeValueAsBytes(c)), "out");
    }
  }
  static class Dedup extends Step {
    WindowStore<Long, byte[]> store;
    @Override public void init(ProcessorContext<byte[], byte[]> c) { super.init(c); store = c.getStateStore("s"); }
    void handle(Record<byte[], byte[]> r) throws Exception {
      Order o = JSON.readValue(r.value(), Order.class);
      long t = Instant.parse(o.event_time).toEpochMilli();
      try (WindowStoreIterator<byte[]> it = store.fetch(o.order_id, t - 300_000, t + 300_000)) { if (it.hasNext()) return; }
      store.put(o.order_id, new byte[0], t);
      context().forward(r, "out");
    }
  }
  static class Sum extends Step {
    WindowStore<String, Long> store;
    @Override public void init(ProcessorContext<byte[], byte[]> c) { super.init(c); store = c.getStateStore("s"); }
    void handle(Record<byte[], byte[]> r) throws Exception {
      Order o = JSON.readValue(r.value(), Order.class);
      long t = Instant.parse(o.event_time).toEpochMilli(), w = t - t % 60_000;
      Long old = store.fetch(o.customer_id, w);
      long sum = (old == null ? 0 : old) + cents(o.amount);
      store.put(o.customer_id, sum, w);
      context().forward(r.withValue(("{\"customer_id\":\"" + o.customer_id + "\",\"window\":" + w + ",\"sum\":" + sum + "}").getBytes()), "out");
    }
  }

  public static void main(String[] a) throws Exception {
    String bootstrap = a[0], in = a[1], out = a[2], workload = a[4], app = a[6];
    long n = Long.parseLong(a[3]); int commitMs = Integer.parseInt(a[5]);
    boolean inMemory = a.length > 7 && a[7].equals("memory");
    Properties p = new Properties();
    p.put(StreamsConfig.APPLICATION_ID_CONFIG, app); p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
    p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2); p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, commitMs);
    p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1); p.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
    p.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("streams-peer").toString());
    p.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 5); p.put(StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 1_000_000);
    p.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4"); p.put(StreamsConfig.producerPrefix(ProducerConfig.BUFFER_MEMORY_CONFIG), 256_000_000L);
    p.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest"); p.put(StreamsConfig.consumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 10_000);
    p.put(StreamsConfig.consumerPrefix(ConsumerConfig.CHECK_CRCS_CONFIG), true);
    // -Dpeer.NAME=VALUE sets NAME, for whoever wants it otherwise.
    System.getProperties().forEach((name, value) -> { if (name.toString().startsWith("peer.")) p.put(name.toString().substring(5), value); });
    Topology t = new Topology();
    t.addSource("in", new ByteArrayDeserializer(), new ByteArrayDeserializer(), in);
    ProcessorSupplier<byte[], byte[], byte[], byte[]> step = switch (workload) {
      case "copy" -> Copy::new; case "clean" -> Clean::new; case "dedup" -> Dedup::new; case "sum" -> Sum::new;
      default -> throw new IllegalArgumentException("workload: copy | clean | dedup | sum"); };
    t.addProcessor("step", step, "in");
    t.addSink("out", out, new ByteArraySerializer(), new ByteArraySerializer(), "step");
    t.addSink("dlq", out + "_dlq", new ByteArraySerializer(), new ByteArraySerializer(), "step");
    if (workload.equals("dedup")) t.addStateStore(Stores.windowStoreBuilder(inMemory
        ? Stores.inMemoryWindowStore("s", Duration.ofMinutes(15), Duration.ofMinutes(5), false)
        : Stores.persistentWindowStore("s", Duration.ofMinutes(15), Duration.ofMinutes(5), false), Serdes.Long(), Serdes.ByteArray()).withCachingEnabled(), "step");
    if (workload.equals("sum")) t.addStateStore(Stores.windowStoreBuilder(inMemory
        ? Stores.inMemoryWindowStore("s", Duration.ofDays(1), Duration.ofMinutes(1), false)
        : Stores.persistentWindowStore("s", Duration.ofDays(1), Duration.ofMinutes(1), false), Serdes.String(), Serdes.Long()).withCachingEnabled(), "step");
    KafkaStreams ks = new KafkaStreams(t, p);
    // Its default leaves a process without threads that waits for ever; a supervisor can do more with one that ends.
    ks.setUncaughtExceptionHandler(e -> { e.printStackTrace(); Runtime.getRuntime().halt(1); return null; });
    long start = System.nanoTime(); ks.start();
    while (seen.get() < n) Thread.sleep(10);
    Thread.sleep(commitMs);
    long end = System.nanoTime();
    var os = (com.sun.management.OperatingSystemMXBean) java.lang.management.ManagementFactory.getOperatingSystemMXBean();
    double cpu = os.getProcessCpuTime() / 1e9, wall = (end - first.get()) / 1e9;
    String rss = Files.readAllLines(Path.of("/proc/self/status")).stream().filter(x -> x.startsWith("VmHWM")).findFirst().get().replaceAll("\\D+", "");
    System.out.printf("{\"peer\":\"streams%s\",\"workload\":\"%s\",\"commit_ms\":%d,\"records\":%d,\"join_s\":%.2f,\"wall_s\":%.2f,\"records_per_s\":%.0f,\"cpu_s\":%.2f,\"cpu_s_per_million\":%.2f,\"rss_mb\":%d}%n",
        inMemory ? "-memory" : "", workload, commitMs, seen.get(), (first.get() - start) / 1e9, wall, seen.get() / wall, cpu, cpu * 1e6 / seen.get(), Long.parseLong(rss) / 1024);
    ks.close(Duration.ofSeconds(20));
    System.exit(0);
  }
}
