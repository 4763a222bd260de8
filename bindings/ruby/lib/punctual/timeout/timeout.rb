# frozen_string_literal: true

require "timeout"
require_relative "../time"

module Punctual
  # The standard library's `Timeout`, on the engine's driver: a timeout that is not needed costs a
  # microsecond, however many others are pending.
  module Timeout
    # What is raised by default.
    Error = ::Timeout::Error

    # Ends a block from outside. It is thrown, so the block cannot rescue it, but runs its `ensure`
    # clauses.
    #
    # @api private
    class Expiry < Exception # rubocop:disable Lint/InheritException -- a block's `rescue => e` must not catch it
      def initialize(request)
        super("execution expired")
        @request = request
      end

      # Ruby calls this in the thread in which the exception is raised.
      def exception(*)
        if @request.thread.equal?(Thread.current)
          begin
            throw @request
          rescue UncaughtThrowError
            # The block is over.
          end
        end
        self
      end
    end

    # A pending timeout.
    #
    # @api private
    class Request
      attr_reader :thread

      def initialize(klass, message)
        @thread = Thread.current
        @klass = klass
        @message = message
      end

      def arm(seconds)
        @clock = Time::Clock.current
        @number = @clock.arm(seconds, self)
      end

      # Ends the timeout. If it has expired, its exception is raised in here.
      def finish
        return if !@number || @clock.disarm(@number)

        Thread.pass
      end

      def fire(_clock)
        if @klass
          @thread.raise(@klass, @message)
        else
          @thread.raise(Expiry.new(self))
        end
      rescue ThreadError
        # The thread has ended.
      end
    end

    module_function

    # Calls the block, and raises if that takes longer than so many seconds.
    #
    # If `klass` is given, the block can rescue it; otherwise it cannot rescue what ends it. With a
    # Fiber scheduler that has `timeout_after`, that is used.
    #
    # @param seconds [Numeric, nil] nil and 0: no limit
    # @param klass [Class, nil] what to raise
    # @param message [String]
    # @return [Object] what the block returns
    # @yieldparam seconds [Numeric]
    # @raise [Error] if the time is over
    # @raise [ArgumentError] if the seconds are negative or NaN
    # @raise [TypeError] if `klass` is no exception class
    def timeout(seconds, klass = nil, message = nil, &)
      return yield(seconds) if seconds.nil? || seconds.zero?
      raise ArgumentError, "a timeout is not negative: #{seconds}" if seconds.negative?

      raise TypeError, "not an exception class: #{klass.inspect}" unless klass.nil? || klass.respond_to?(:exception)

      message ||= "execution expired"
      if (scheduler = Fiber.current_scheduler) && scheduler.respond_to?(:timeout_after)
        return scheduler.timeout_after(seconds, klass || Error, message, &)
      end

      request = Request.new(klass, message)
      catch(request) do
        request.arm(seconds)
        return yield(seconds)
      ensure
        request.finish
      end
      raise Error, message, caller
    end
  end
end
