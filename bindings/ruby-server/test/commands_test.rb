# frozen_string_literal: true

require_relative "test_helper"
require "socket"
require "tmpdir"

class CommandsTest < Minitest::Test
  CommandError = Punctual::Server::CommandError
  PATIENCE = 30

  def with_take(**options)
    server = Punctual::Server.new(**options)
    server.command("take", keys: 1, summary: "Takes an amount.", complexity: "O(1)") do |invocation, key, amount = "1"|
      left = invocation.call("DECRBY", key, amount)
      next left unless left.negative?

      invocation.call("INCRBY", key, amount)
      raise CommandError, "NOSTOCK not enough left"
    end
  end

  # Starts a server, and stops it after the block.
  def running(server)
    yield server.start
  ensure
    server.stop
  end

  def refused(pattern, error = CommandError, &block)
    assert_match(pattern, assert_raises(error, &block).message)
  end

  def test_a_command_runs_wherever_commands_run
    [1, 3].each do |threads|
      running(with_take(threads:, clock: :virtual)) do |server|
        server.call("SET", "stock", 10)
        assert_equal 7, server.call("TAKE", "stock", 3)
        refused(/\ANOSTOCK not enough left\z/) { server.call("take", "stock", 8) }
        refused(/wrong number of arguments for 'take'/) { server.call("TAKE") }
        refused(/wrong number of arguments for 'take'/) { server.call("TAKE", "stock", 1, 2) }
        assert_equal [6, "6"], server.client.pipeline([%w[MULTI], %w[TAKE stock], %w[GET stock], %w[EXEC]]).last
        assert_equal 4, server.call("EVAL", "return redis.call('take', KEYS[1], 2)", 1, "stock")
        server.call("TIMER", "SET", "t", "IN", 50, "DO", "TAKE", "stock", 3)
        server.advance(0.05)
        assert_equal "1", server.call("GET", "stock")
        docs = server.call("COMMAND", "DOCS", "take")["take"]
        assert_equal ["Takes an amount.", "O(1)"], docs.values_at("summary", "complexity")
        assert_equal(%w[key amount], docs["arguments"].map { |argument| argument["name"] })
      end
    end
  end

  def test_a_client_over_a_socket_runs_a_command
    running(with_take) do |server|
      TCPSocket.open(server.host, server.port) do |socket|
        socket.write("set stock 5\r\ntake stock 2\r\ntake stock 9\r\n")
        assert_equal ["+OK", ":3", "-NOSTOCK not enough left"], Array.new(3) { socket.gets.chomp }
      end
    end
  end

  def test_replies_have_the_types_of_resp3
    values = [
      "text", :symbol, 7, -1, 0.5, true, false, nil, 1 << 70, [1, ["two"]], { "key" => [1.5] }, Set["m"],
      [CommandError.new("no code"), CommandError.new("CODE text")]
    ]
    server = Punctual::Server.new.command("value", flags: %i[readonly fast]) { |_, number| values[number.to_i] }
    running(server) do
      replies = values.each_index.map { |number| server.call("VALUE", number) }
      errors = replies.pop
      assert_equal ["text", "symbol", 7, -1, 0.5, true, false, nil, 1 << 70, [1, ["two"]], { "key" => [1.5] }, ["m"]],
                   replies
      assert_equal ["ERR no code", "CODE text"], errors.map(&:message)
    end
  end

  def test_exceptions_are_errors
    recursive = []
    recursive << recursive
    server = Punctual::Server.new
    server.command("fail", keys: 1) do |invocation, key, kind|
      invocation.call("SET", key, "before")
      case kind
      when "exit" then exit(3)
      when "raise" then raise ArgumentError, "two\nlines"
      when "deep" then recursive
      else Object.new
      end
    end
    running(server) do
      _, shown = capture_io do
        refused(/\AERR ArgumentError: two lines\z/) { server.call("FAIL", "key", "raise") }
        refused(/\AERR SystemExit: exit\z/) { server.call("FAIL", "key", "exit") }
        refused(/\AERR ArgumentError: a reply must not be nested/) { server.call("FAIL", "key", "deep") }
        refused(/\AERR TypeError: a reply must be a String, .* not Object\z/) { server.call("FAIL", "key", "other") }
      end
      assert_equal 4, shown.scan("a command's block has failed").size
      assert_equal "before", server.call("GET", "key")
    end
  end

  def test_a_block_calls_the_server_only_by_its_invocation
    kept = nil
    server = Punctual::Server.new(clock: :virtual)
    server.command("look", flags: [:readonly]) do |invocation, *words|
      kept = invocation
      acts = [
        -> { server.call("PING") }, -> { server.client.call("PING") }, -> { server.advance(1) },
        -> { invocation.call("LOOK") }, -> { invocation.call("SET", "key", "value") }, -> { invocation.call }
      ]
      [server.port, server.running?, server.now == invocation.now, *acts.map { |act| error_of(&act) }, *words]
    end
    running(server) do
      port, running, same, *texts, a, b = server.call("LOOK", "a", "b")
      assert_equal [server.port, true, true, "a", "b"], [port, running, same, a, b]
      texts.first(3).each { |text| assert_match(/the block's first argument/, text) }
      assert_match(/another command of the program/, texts[3])
      assert_match(/read-only script/, texts[4])
      assert_match(/needs a name/, texts[5])
      refused(/has ended/, RuntimeError) { kept.call("PING") }
    end
  end

  def error_of
    yield
    "no error"
  rescue StandardError => e
    e.message
  end

  def test_the_log_has_what_a_block_calls
    Dir.mktmpdir do |dir|
      running(with_take(dir:, appendonly: true)) do |server|
        server.call("SET", "stock", 10)
        server.call("TAKE", "stock", 3)
        refused(/NOSTOCK/) { server.call("TAKE", "stock", 8) }
      end
      # A server without the command can load the file.
      Punctual::Server.open(dir:, appendonly: true) { |server| assert_equal "7", server.call("GET", "stock") }
    end
  end

  def test_many_threads_call_commands
    running(with_take(threads: 2)) do |server|
      server.call("SET", "stock", 200)
      Array.new(8) { Thread.new { 25.times { server.call("TAKE", "stock") } } }.each(&:join)
      assert_equal "0", server.call("GET", "stock")
    end
  end

  # A server whose command waits until the test lets it end.
  def with_block
    began = Queue.new
    release = Queue.new
    server = Punctual::Server.new(busy_reply_threshold: 1)
    server.command("block", flags: [:readonly]) do |invocation|
      began << true
      release.pop
      invocation.call("PING")
    end
    yield server, began, release
  end

  def call_aside(server)
    Thread.new { server.call("BLOCK") rescue $!.message } # rubocop:disable Style/RescueModifier
  end

  def test_a_slow_block_can_be_killed
    with_block do |server, began, release|
      capture_io do
        running(server) do
          waiting = call_aside(server)
          began.pop
          refused(/\ABUSY/) { server.call("GET", "key") }
          assert_equal "OK", server.call("SCRIPT", "KILL")
          assert_match(/killed/, waiting.value)
          refused(/has been ended/) { server.call("BLOCK") }
          2.times { release << true }
          release << true until call_aside(server).value == "PONG"
        end
      end
    end
  end

  def test_a_stop_does_not_wait_for_a_block
    with_block do |server, began, release|
      capture_io do
        server.start
        waiting = call_aside(server)
        began.pop
        server.stop
        refute_equal "PONG", waiting.value
        # A restart has another thread.
        2.times { release << true }
        running(server) { assert_equal "PONG", server.call("BLOCK") }
      end
    end
  end

  def test_a_killed_thread_does_not_hold_up_the_server
    with_block do |server, began|
      running(server) do
        waiting = call_aside(server)
        began.pop
        Thread.list.find { |thread| thread.name == "punctual-commands" }.kill
        assert_match(/no commands any more/, waiting.value)
        refused(/no commands any more/) { server.call("BLOCK") }
        assert_equal "PONG", server.call("PING")
      end
    end
  end

  def test_wrong_declarations_are_refused
    server = with_take
    {
      /flags: an own command cannot have the flag 'blocking'/ => { flags: [:blocking] },
      /flags: a command has either/ => { flags: [] },
      /keys: positions begin at 1/ => { keys: [0, 1, 1] },
      /categories: there is no ACL category 'x'/ => { categories: ["x"] }
    }.each { |error, options| refused(error, ArgumentError) { server.command("fine", **options) { |_| nil } } }
    ["Two words", "get", "take"].each { |name| assert_raises(ArgumentError) { server.command(name) { |_| nil } } }
    refused(/needs a block/, ArgumentError) { server.command("fine") }
    refused(/first argument/, ArgumentError) { server.command("fine") { nil } }
    refused(/no key parameter/, ArgumentError) { server.command("fine") { |_, key: 1| key } }
    running(server) { refused(/before its start/, RuntimeError) { server.command("fine") { |_| nil } } }
  end

  def test_a_program_ends_while_a_block_runs
    ["sleep", "loop {}", "1"].each do |wait|
      output, status = PunctualTest.run(<<~RUBY)
        require "punctual/server"
        began = Queue.new
        server = Punctual::Server.new
        server.command("block", flags: [:readonly]) { |_| began << true; #{wait} }
        client = server.start.client
        Thread.new { client.call("BLOCK") rescue nil }
        began.pop
        puts "the program ends"
      RUBY
      assert_equal ["the program ends\n", true], [output, status.success?], wait
    end
  end

  def test_a_fork_cannot_call_the_server
    running(with_take) do |server|
      server.call("SET", "stock", 5)
      child = fork do
        refused(/forked from/, RuntimeError) { server.call("TAKE", "stock") }
        server.stop
        Punctual::Server.open { |mine| mine.call("PING") }
        exit!(0)
      rescue Exception # rubocop:disable Lint/RescueException -- also a failed assertion
        exit!(1)
      end
      assert_predicate Process.wait2(child).last, :success?
      assert_equal 4, server.call("TAKE", "stock")
    end
  end
end
