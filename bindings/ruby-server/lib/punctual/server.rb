# frozen_string_literal: true

require "punctual"
begin
  require Punctual::Extension.path(__dir__, "punctual_server")
rescue LoadError => e
  raise LoadError, "the gem punctual-server has no native extension for this Ruby, install it again: #{e.message}"
end

if Punctual::NATIVE_SERVER_VERSION != Punctual::VERSION
  raise LoadError, "the native extension of punctual-server has version #{Punctual::NATIVE_SERVER_VERSION}, the gem " \
                   "punctual has version #{Punctual::VERSION}: install both again"
end

require "set"
require "punctual/server/runner"

# The gem punctual, to which the gem punctual-server adds the server.
module Punctual
  # A Redis-compatible server in this process, on its own threads. Any Redis client can connect to
  # it.
  #
  # The server's threads never run Ruby, so a client in this process may wait for the server without
  # a deadlock. Only own commands ({#command}) wait for a thread of Ruby. The server saves and loads
  # no files without one of the options `dir`, `dbfilename`, `save` and `appendonly`, and writes no
  # log without `logfile`.
  #
  # A fork of this process may connect to the server, but only the process that started it can stop
  # or query it.
  #
  # @example
  #   Punctual::Server.open(clock: :virtual) do |server|
  #     redis = Redis.new(port: server.port)
  #     redis.set("session", "alice", ex: 1800)
  #     server.advance(1800)
  #     redis.get("session") #=> nil
  #   end
  class Server
    # The server has replied with an error.
    class CommandError < StandardError; end

    # A client in the process of its server; {Server#client} connects it. It has all permissions,
    # and a session of its own. Replies are strings, integers, floats, true, false, nil, arrays and
    # hashes. Several threads may use the same client; their calls run one after the other. Other
    # threads run while a command waits; an interrupt of the thread ends the wait and disconnects
    # the client.
    class Client
      # Runs a command.
      #
      # @param args [Array<String, Symbol, Integer, Float>] the command's name and arguments
      # @return [Object] the reply
      # @raise [CommandError] if the server replies with an error
      # @raise [ArgumentError] if the command needs a connection over a socket, such as MONITOR
      # @raise [RuntimeError] if the server has stopped, or has closed the client
      def call(*args)
        call_words(args)
      end

      # @!method pipeline(commands)
      #   Runs several commands at once.
      #
      #   @param commands [Array<Array>] names and arguments
      #   @return [Array] the replies; an error is a {CommandError} that is not raised

      # Returns the next message of a subscription.
      #
      # @param timeout [Numeric, nil] seconds to wait at most
      # @return [Array, nil] nil if there is no message in this time
      def message(timeout = nil)
        next_message(timeout&.to_f)
      end

      private :call_words, :next_message
    end

    # A running own command: the first argument of the block of {Server#command}.
    class Invocation
      # Runs a command of the server as part of the own command, with the permissions of the client.
      # A command that would wait replies that it found nothing.
      #
      # @param args [Array<String, Symbol, Integer, Float>] the command's name and arguments
      # @return [Object] the reply, as {Client#call} returns it
      # @raise [CommandError] if the server replies with an error
      # @raise [RuntimeError] if the own command has ended
      def call(*args)
        call_words(args)
      end

      # @return [::Time] the time at which the command runs, by the server's clock
      def now
        ::Time.at(0, now_micros, :microsecond)
      end

      private :call_words, :now_micros
    end

    MICROS = 1_000_000
    private_constant :MICROS

    # @return [Symbol] `:real` or `:virtual`
    attr_reader :clock

    # Creates a server, starts it, and stops it after the block.
    #
    # @yieldparam server [Server]
    # @return [Object] the result of the block; without a block, the running server
    def self.open(...)
      server = new(...).start
      return server unless block_given?

      begin
        yield server
      ensure
        server.stop
      end
    end

    # @param port [Integer, nil] the TCP port; 0 picks any free port at the start, nil disables TCP
    # @param threads [Integer] number of event loops, one per thread
    # @param clock [Symbol] `:real` is the machine's clock; `:virtual` is a clock that only
    #   {#advance} and {#set_time} move, and that starts at the machine's time
    # @param options any directive of redis.conf, with underscores for dashes: `maxclients: 100`,
    #   `notify_keyspace_events: "Ex"`, `unixsocket: path`, `bind: ["127.0.0.1", "::1"]`. The
    #   default of `bind` is 127.0.0.1.
    # @raise [ArgumentError] if an option is unknown or has a wrong value
    def initialize(port: 0, threads: 1, clock: :real, **options)
      check_port(port)
      words = { "bind" => "127.0.0.1", "threads" => threads.to_s, "clock" => clock.to_s }
      options.each { |name, value| words[name.to_s.tr("_", "-").downcase] = text(name, value) }
      if (port.nil? || words["bind"].strip.empty?) && !words["unixsocket"]
        raise ArgumentError, "nothing to listen on: give a port and an address, or unixsocket"
      end

      @native = NativeServer.new(port, words.to_a)
      idle = @native.without_effect
      warn("no effect in Punctual::Server: #{idle.join(", ")}", uplevel: 1) unless idle.empty?
      @clock = @native.virtual? ? :virtual : :real
      @blocks = []
    end

    # Declares an own command, which the block runs.
    #
    # Clients, transactions, scripts and timers can call the command, and COMMAND, COMMAND DOCS and
    # ACL rules know it. The block gets an {Invocation}, and the command's arguments as strings; its
    # parameters say how many. It returns the reply: a String, Symbol, Integer, Float, true, false,
    # nil, or an Array, Hash or Set of these. A {CommandError} becomes an error reply. So does any
    # other exception, which is also reported by `warn`.
    #
    # Blocks run on one thread of Ruby, one at a time. The command is atomic, and its event loop
    # waits for it, so the block must be quick. It must use the server only by its {Invocation}, and
    # must not wait for other threads that use the server. The commands that it calls are written to
    # the append-only file and to replicas, in one transaction. After an exception, they remain in
    # force. An own command cannot call another one.
    #
    # @example
    #   server.command("take", keys: 1) do |invocation, key, amount = "1"|
    #     left = invocation.call("GET", key).to_i
    #     raise Punctual::Server::CommandError, "ERR not enough left" if left < amount.to_i
    #
    #     invocation.call("DECRBY", key, amount)
    #   end
    #
    # @param name [String, Symbol] the command's name, in lower case
    # @param keys [Integer, Array(Integer, Integer, Integer), nil] position of the last argument that
    #   is a key, if all arguments up to it are keys: 1 for the first argument, -1 for all; or the
    #   positions of the first and the last key and the distance between two keys; nil for no keys. A
    #   block may use only keys that are arguments.
    # @param flags [Array<String, Symbol>] flags of COMMAND INFO: `write` if the block calls commands
    #   that write, otherwise `readonly`; and `denyoom`, `fast`, `noscript`, `no_multi`, `loading`,
    #   `stale`, `skip_slowlog`, `admin`
    # @param categories [Array<String, Symbol>] ACL categories, besides those that follow from the
    #   flags
    # @param summary [String] one line for COMMAND DOCS
    # @param complexity [String] the time complexity for COMMAND DOCS
    # @return [self]
    # @raise [ArgumentError] if a part of the declaration is wrong, or the server has such a command
    # @raise [RuntimeError] if the server runs
    def command(name, keys: nil, flags: [:write], categories: [], summary: "", complexity: "", &block)
      raise ArgumentError, "a command needs a block" unless block

      keys = [1, keys, 1] if keys.is_a?(Integer)
      @native.declare([name.to_s, summary, complexity], Runner.parameters(block), flags.map(&:to_s), keys,
                      categories.map(&:to_s))
      @blocks << block
      self
    end

    # Starts the server unless it runs. When this returns, the server accepts connections. A
    # restarted server is empty unless it loads files, listens on the same port as before, and
    # starts at the machine's time.
    #
    # @return [self]
    # @raise [SystemCallError] if an address is in use, or not permitted
    # @raise [RuntimeError] in a fork of the process that started it
    def start
      return self if running?

      runner = Runner.new(@blocks) unless @blocks.empty?
      begin
        @native.start(runner&.requests)
      rescue StandardError
        runner&.stop
        raise
      end
      @runner = runner
      self
    end

    # Stops the server if it runs. When this returns, its connections are closed and its port is
    # free. Does nothing in a fork of the process that started the server.
    #
    # @return [nil]
    def stop
      inherited = @native.inherited?
      @native.stop
      @runner&.stop unless inherited
      @runner = nil
    end

    # Returns true while the server runs: until {#stop}, or SHUTDOWN by a client. Returns false in a
    # fork.
    def running?
      @native.running?
    end

    # @return [String] the address to connect to, usually 127.0.0.1
    def host
      @native.address[0]
    end

    # @return [Integer] the TCP port; 0 without TCP, and before the first start if the server picks
    #   a free port
    def port
      @native.address[1]
    end

    # @return [String] the URL for `Redis.new(url: server.url)`
    def url
      name = host
      "redis://#{name.include?(":") ? "[#{name}]" : name}:#{port}"
    end

    # Connects a client in this process, without a socket.
    #
    # @return [Client]
    # @raise [RuntimeError] if the server does not run, or has as many clients as `maxclients` allows
    def client
      @native.client
    end

    # Runs one command. Calls use clients of this server again, and never a client that may have
    # changed: SELECT, MULTI and the like have no effect on later calls.
    #
    # @param args [Array<String, Symbol, Integer, Float>] the command's name and arguments
    # @return [Object] the reply, as {Client#call} returns it
    # @raise [CommandError] if the server replies with an error
    def call(*args)
      @native.call_words(args)
    end

    # @return [::Time] the time of the server's clock
    # @raise [RuntimeError] if it does not run
    def now
      time_at(@native.now)
    end

    # Advances a virtual clock. When this returns, due keys have expired in the order of their
    # deadlines, each at the time of its own deadline.
    #
    # @param seconds [Numeric] rounded up to microseconds
    # @return [::Time] the new time of the clock
    # @raise [ArgumentError] if the seconds are negative, infinite or NaN
    # @raise [RangeError] if the new time is later than the server can count
    # @raise [RuntimeError] if the clock is real, or the server does not run
    def advance(seconds)
      time_at(@native.advance(micros(seconds)))
    end

    # Moves a virtual clock forward to a time.
    #
    # @param time [::Time, Numeric] a number is in seconds since 1970
    # @return [::Time] the new time of the clock
    # @raise [ArgumentError] if the time is before the clock's time, negative, infinite or NaN
    # @raise [RangeError] if the time is later than the server can count
    # @raise [RuntimeError] if the clock is real, or the server does not run
    def set_time(time) # rubocop:disable Naming/AccessorMethodName -- Redis's command has this name
      time = time.to_r if time.is_a?(::Time)
      time_at(@native.set_time(micros(time)))
    end

    # @return [String] the address on which the server listens, and its state
    def inspect
      "#<#{self.class} #{running? ? "on #{host}:#{port}" : "stopped"}#{", virtual clock" if clock == :virtual}>"
    end

    private

    def check_port(port)
      return if port.nil?
      raise TypeError, "port: #{port.inspect} is not a number" unless port.is_a?(Integer)
      raise ArgumentError, "port: #{port} is not between 0 and 65535" unless port.between?(0, 65_535)
    end

    def time_at(micros)
      ::Time.at(0, micros, :microsecond)
    end

    def micros(seconds)
      unless seconds.is_a?(Numeric) && seconds.finite? && !seconds.negative?
        raise ArgumentError, "the clock cannot go to, or by, #{seconds.inspect} seconds"
      end

      micros = (seconds.to_r * MICROS).ceil
      raise RangeError, "the time is later than the server can count" if micros >= 1 << 63

      micros
    end

    def text(name, value)
      case value
      when true then "yes"
      when false then "no"
      when String, Symbol, Integer then value.to_s
      when Array then value.map { |one| text(name, one) }.join(" ")
      else
        raise TypeError, "#{name}: no option is a #{value.class}" unless value.respond_to?(:to_path)

        value.to_path
      end
    end
  end
end
