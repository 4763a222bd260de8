# frozen_string_literal: true

require_relative "../punctual"

module Punctual
  # A Redis-compatible server in this process, on threads of its own. Any Redis client talks to it.
  #
  # Its threads never touch Ruby: a client in this process may wait for it without a deadlock. It
  # makes and loads no snapshot unless it is given `dir`, `dbfilename` or `save`, and writes no log
  # unless it is given `logfile`. It needs the native extension.
  #
  # A fork of this process may connect to the server, but only the process that started it can stop
  # or ask it.
  #
  # @example
  #   Punctual::Server.open(clock: :virtual) do |server|
  #     redis = Redis.new(port: server.port)
  #     redis.set("session", "alice", ex: 1800)
  #     server.advance(1800)
  #     redis.get("session") #=> nil
  #   end
  class Server
    MICROS = 1_000_000
    private_constant :MICROS

    # @return [Symbol] `:real` or `:virtual`
    attr_reader :clock

    # Makes a server, starts it, and stops it after the block.
    #
    # @yieldparam server [Server]
    # @return [Object] what the block returns; without a block, the server, which runs
    def self.open(...)
      server = new(...).start
      return server unless block_given?

      begin
        yield server
      ensure
        server.stop
      end
    end

    # @param port [Integer, nil] the TCP port; 0: any free one when it starts; nil: none @param
    # threads [Integer] event loops @param clock [Symbol] `:virtual`: a clock that stands still
    # until {#advance} or {#set_time} moves it; it begins at the
    #   machine's time
    # @param options any directive of redis.conf, with underscores for dashes: `maxclients: 100`,
    #   `notify_keyspace_events: "Ex"`, `unixsocket: path`, `bind: ["127.0.0.1", "::1"]`. It listens
    #   on 127.0.0.1 alone unless `bind` says otherwise.
    # @raise [ArgumentError] if an option is not known, or has a wrong value
    # @raise [NotImplementedError] in pure Ruby
    def initialize(port: 0, threads: 1, clock: :real, **options)
      unless NATIVE
        raise NotImplementedError, "Punctual::Server needs the native extension, which is not loaded (Punctual::NATIVE): " \
                                   "install the gem where Rust is, without PUNCTUAL_PURE"
      end
      check_port(port)
      words = { "bind" => "127.0.0.1", "threads" => threads.to_s, "clock" => clock.to_s }
      options.each { |name, value| words[name.to_s.tr("_", "-").downcase] = text(name, value) }
      if (port.nil? || words["bind"].strip.empty?) && !words["unixsocket"]
        raise ArgumentError, "it would listen nowhere: it needs a port and an address, or unixsocket"
      end

      @native = NativeServer.new(port, words.to_a)
      idle = @native.without_effect
      warn("no effect in Punctual::Server: #{idle.join(", ")}", uplevel: 1) unless idle.empty?
      @clock = @native.virtual? ? :virtual : :real
    end

    # Starts the server, if it does not run; it serves when this returns. A server that is started
    # again is empty, listens on the same port as before, and begins at the machine's time.
    #
    # @return [self]
    # @raise [SystemCallError] if an address is in use, or may not be listened on
    # @raise [RuntimeError] in a fork of the process that started it
    def start
      @native.start
      self
    end

    # Stops the server, if it runs: connections are closed and the port is free when this returns.
    # Does nothing in a fork of the process that started it.
    #
    # @return [nil]
    def stop
      @native.stop
      nil
    end

    # Whether it serves. A client may have ended it (SHUTDOWN); in a fork it never does.
    def running?
      @native.running?
    end

    # @return [String] the address to connect to, usually 127.0.0.1
    def host
      @native.address[0]
    end

    # @return [Integer] the TCP port; 0 if there is none, or none yet
    def port
      @native.address[1]
    end

    # @return [String] for `Redis.new(url: server.url)`
    def url
      name = host
      "redis://#{name.include?(":") ? "[#{name}]" : name}:#{port}"
    end

    # @return [::Time] what its clock shows
    # @raise [RuntimeError] if it does not run
    def now
      time_at(@native.now)
    end

    # Moves a virtual clock. Keys expire at their own times, in order, before this returns.
    #
    # @param seconds [Numeric] rounded up to microseconds
    # @return [::Time] what the clock shows then
    # @raise [ArgumentError] if the seconds are negative, infinite or NaN
    # @raise [RuntimeError] if the clock is real, or the server does not run
    def advance(seconds)
      time_at(@native.advance(micros(seconds)))
    end

    # Moves a virtual clock to a time.
    #
    # @param time [::Time, Numeric] a number counts seconds since 1970
    # @return [::Time] what the clock shows then
    # @raise [ArgumentError] if that is in the clock's past
    # @raise [RuntimeError] if the clock is real, or the server does not run
    def set_time(time) # rubocop:disable Naming/AccessorMethodName -- Redis's command has this name
      time = time.to_r if time.is_a?(::Time)
      time_at(@native.set_time(micros(time)))
    end

    # @return [String] with where it listens
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
