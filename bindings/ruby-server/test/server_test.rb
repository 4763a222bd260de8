# frozen_string_literal: true

require_relative "test_helper"
require "socket"

class ServerTest < Minitest::Test
  # Sends one command, in words, and returns the first line of the reply.
  def ask(server, *words)
    TCPSocket.open(server.host, server.port) do |socket|
      socket.write("*#{words.size}\r\n", *words.map { |word| "$#{word.to_s.bytesize}\r\n#{word}\r\n" })
      socket.gets.chomp
    end
  end

  def test_keys_expire_when_the_clock_moves
    Punctual::Server.open(clock: :virtual) do |server|
      assert_equal "+OK", ask(server, :set, "key", "value", :ex, 60)
      before = server.now
      assert_in_delta 59.5, server.advance(59.5) - before, 1e-3
      assert_equal ":1", ask(server, :exists, "key")
      server.advance(0.5)
      assert_equal ":0", ask(server, :exists, "key")
      server.set_time(before + 3600)
      assert_equal before + 3600, server.now
    end
  end

  def test_start_and_stop
    server = Punctual::Server.new
    assert_equal [false, 0], [server.running?, server.port]
    assert_equal "#<Punctual::Server stopped>", server.inspect
    assert_same server, server.start
    port = server.port
    assert_equal "+PONG", ask(server, :ping)
    assert_equal "redis://127.0.0.1:#{port}", server.url
    assert_raises(SystemCallError) { Punctual::Server.new(port:).start }
    2.times { assert_nil server.stop }
    assert_raises(Errno::ECONNREFUSED) { TCPSocket.open("127.0.0.1", port) }
    assert_equal port, server.start.port
    ask(server, :shutdown) rescue nil # rubocop:disable Style/RescueModifier -- the connection ends
    server.stop
    refute_predicate server, :running?
  end

  def test_options
    Punctual::Server.open(maxclients: 77, notify_keyspace_events: "Ex", bind: ["127.0.0.1"]) do |server|
      TCPSocket.open(server.host, server.port) do |socket|
        socket.write("config get maxclients\r\n")
        assert_equal %w[*2 $10 maxclients $2 77], Array.new(5) { socket.gets.chomp }
      end
    end
    assert_output(nil, /no effect in Punctual::Server: /) { Punctual::Server.new(io_threads: 4) }
  end

  def test_bad_input
    assert_match(/maxclients: /, assert_raises(ArgumentError) { Punctual::Server.new(maxclients: "many") }.message)
    assert_raises(ArgumentError) { Punctual::Server.new(no_such_option: 1) }
    assert_raises(ArgumentError) { Punctual::Server.new(clock: :wrong) }
    assert_raises(ArgumentError) { Punctual::Server.new(port: 65_536) }
    assert_raises(ArgumentError) { Punctual::Server.new(port: nil) }
    assert_raises(TypeError) { Punctual::Server.new(port: "6379") }
    assert_raises(TypeError) { Punctual::Server.new(maxclients: 1.5) }
    real = Punctual::Server.new
    assert_raises(RuntimeError) { real.now }
    real.start
    assert_match(/clock: :virtual/, assert_raises(RuntimeError) { real.advance(1) }.message)
    real.stop
    Punctual::Server.open(clock: :virtual) do |server|
      [-1, Float::NAN, Float::INFINITY, nil, "1"].each { |by| assert_raises(ArgumentError) { server.advance(by) } }
      assert_raises(ArgumentError) { server.set_time(0) }
      assert_raises(RangeError) { server.advance(1e15) }
    end
  end

  def test_a_fork_may_connect_but_not_stop
    Punctual::Server.open(clock: :virtual) do |server|
      child = fork do
        good = ask(server, :ping) == "+PONG" && !server.running?
        server.stop
        begin
          server.advance(1)
        rescue RuntimeError => e
          good &&= e.message.include?("forked")
        end
        server = nil
        GC.start
        own = Punctual::Server.open { |one| ask(one, :ping) }
        exit!(good && own == "+PONG" ? 7 : 8)
      end
      Process.wait(child)
      assert_equal 7, $?.exitstatus
      assert_equal "+PONG", ask(server, :ping)
    end
  end

  def test_a_forgotten_server_ends_with_the_program
    output, status = PunctualTest.run(<<~RUBY)
      require "punctual"
      Punctual::Server.new.start
      trap(:TERM) { exit 3 }
      Process.kill(:TERM, Process.pid)
      sleep
    RUBY
    assert_equal ["", 3], [output, status.exitstatus]
  end

  def test_works_beside_timers_in_pure_ruby
    output, status = PunctualTest.run(<<~RUBY, "PUNCTUAL_PURE" => "1")
      require "punctual"
      print Punctual.native?, Punctual::Server.open(&:running?)
    RUBY
    assert_equal ["falsetrue", true], [output, status.success?]
  end
end
