# frozen_string_literal: true

require_relative "test_helper"

# Workers and producers of jobs, with a server in this process.
class JobsTest < Minitest::Test
  # Time limit in seconds, long enough for a busy machine.
  PATIENCE = 60

  def setup
    begin
      require "redis"
    rescue LoadError
      skip "redis is not installed"
    end
    @server = Punctual::Server.new(clock: :virtual).start
    @redis = connect.call
    @queue = Punctual::Jobs::Queue.new(@redis, "mails")
  end

  def teardown
    stop if @running
    @server&.stop
  end

  def test_a_producer_sends_every_option
    due = @server.now + 5
    all = { id: "all", priority: -3, retry: 2, backoff: [0.01, 0.02], jitter: 5, dead: "graves", at: due, lease: 7,
            ttl: 9, keep: 0.004 }
    assert_equal "all", @queue.add("payload", **all)
    assert_nil @queue.add("payload", **all)
    fields = job("all")
    expected = { "state" => "delayed", "priority" => -3, "retry" => 2, "backoff-base" => 10, "backoff-max" => 20, "jitter" => 5,
                 "dead" => "graves", "at" => (due.to_r * 1000).round, "lease" => 7000, "keep" => 4, "payload" => "payload" }
    assert_equal expected, fields.slice(*expected.keys)
    assert @queue.add("p", unique: 10)
    assert_nil @queue.add("p", unique: 10)
    assert_raises(ArgumentError) { @queue.add("p", dealy: 1) }
  end

  def test_jobs_run_and_fail_and_run_again
    %w[error later good].each { |id| @queue.add(id, id:, backoff: [1, 1], keep: PATIENCE) }
    seen = Thread::Queue.new
    work(threads: 2) do |job|
      seen << [job.payload, job.attempt, job.due.class]
      next if job.attempt > 1

      Integer("x") if job.payload == "error"
      raise Punctual::Jobs::RetryError.new("busy", delay: 2) if job.payload == "later"
    end
    wait_for("good", "state", "done")
    wait_for("error", "state", "delayed")
    wait_for("later", "state", "delayed")
    assert_equal 'ArgumentError: invalid value for Integer(): "x"', job("error")["error"]
    assert_equal "Punctual::Jobs::RetryError: busy", job("later")["error"]
    @server.advance(1)
    wait_for("error", "state", "done")
    assert_equal "delayed", job("later")["state"]
    @server.advance(1)
    wait_for("later", "state", "done")
    runs = Array.new(seen.size) { seen.pop }
    expected = [["error", 1], ["error", 2], ["good", 1], ["later", 1], ["later", 2]]
    assert_equal(expected.map { |one| [*one, ::Time] }, runs.sort_by { |payload, attempt| [payload, attempt] })
  end

  def test_a_lease_is_renewed_while_the_block_runs
    @queue.add("p", id: "long", keep: PATIENCE)
    gate = Thread::Queue.new
    work(lease: 0.3) { gate.pop }
    wait_for("long", "state", "leased")
    4.times { wait_for("long", "at", (@server.advance(0.1r).to_r * 1000).floor + 300) }
    gate << :go
    wait_for("long", "state", "done")
    assert_equal 1, job("long")["attempts"]
  end

  def test_a_worker_that_stops_waits_for_its_jobs_but_not_for_ever
    @queue.add("p", id: "short", keep: PATIENCE)
    gate = Thread::Queue.new
    work { gate.pop }
    wait_for("short", "state", "leased")
    @worker.stop
    gate << :go
    stop
    assert_equal "done", job("short")["state"]

    @queue.add("p", id: "endless")
    work(grace: 0) { sleep }
    wait_for("endless", "state", "leased")
    stop
    assert_equal ["ready", "the worker stopped"], job("endless").values_at("state", "error")
  end

  def test_a_worker_outlives_its_connections
    %w[first second].each { |id| @queue.add(id, id:, keep: PATIENCE, delay: id == "first" ? 0 : 1) }
    work { |_job| nil }
    wait_for("first", "state", "done")
    # Closes all connections but this one.
    @redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    @server.advance(1)
    wait_for("second", "state", "done")
  end

  def test_what_the_server_refuses_ends_the_worker
    @redis.set("mails", "text")
    work { |_job| nil }
    error = assert_raises(Redis::CommandError) { @running.value }
    assert_match(/WRONGTYPE/, error.message)
    @running = nil
  end

  private

  def connect
    -> { Redis.new(url: @server.url, reconnect_attempts: 0, timeout: PATIENCE) }
  end

  def work(**options, &)
    @worker = Punctual::Jobs::Worker.new(["mails"], connect:, **options, &)
    @running = Thread.new(@worker, &:run).tap { |thread| thread.report_on_exception = false }
  end

  # Stops the worker. An advance of the server's clock ends the worker's wait for a job.
  def stop
    @worker.stop
    ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
    until @running.join(0.01)
      @server.advance(1)
      flunk "the worker does not stop" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > ends
    end
  end

  def job(id)
    @redis.call("JOB", "GET", "mails", id).each_slice(2).to_h
  end

  def wait_for(id, field, value)
    ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
    until job(id)[field] == value
      flunk "#{id}: #{field} does not become #{value}: #{job(id)}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > ends
      sleep(0.005)
    end
  end
end
