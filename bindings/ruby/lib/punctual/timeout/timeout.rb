# frozen_string_literal: true

require "timeout"
require_relative "../time"

module Punctual
  # The standard library's `Timeout` on Punctual's timers. A timeout that does not expire costs one
  # to two microseconds, even with thousands of pending timeouts.
  module Timeout
    # The default exception.
    Error = ::Timeout::Error

    # Ends a block from another thread. Ruby raises it in the block's thread, where it turns into a
    # `throw`: the block cannot rescue it, and its `ensure` clauses run.
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
            # The block has ended.
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

      # Disarms the timeout. If it has expired, Ruby raises its exception in this method.
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

    # Calls the block, and raises an exception if the block takes longer than `seconds` seconds.
    #
    # The block can rescue an exception of the class `klass`. Without `klass`, the block cannot
    # rescue the exception. If the current Fiber scheduler has a method `timeout_after`, this method
    # calls it.
    #
    # @param seconds [Numeric, nil] no limit if nil or 0
    # @param klass [Class, nil] the class of the exception
    # @param message [String]
    # @return [Object] the result of the block
    # @yieldparam seconds [Numeric]
    # @raise [Error] if the time is over
    # @raise [ArgumentError] if `seconds` is negative or NaN
    # @raise [TypeError] if `klass` is not an exception class
    def timeout(seconds, klass = nil, message = nil, &block)
      return yield(seconds) if seconds.nil? || seconds.zero?
      raise ArgumentError, "a timeout must not be negative: #{seconds}" if seconds.negative?

      raise TypeError, "not an exception class: #{klass.inspect}" unless klass.nil? || klass.respond_to?(:exception)

      message ||= "execution expired"
      scheduler = Fiber.current_scheduler if Fiber.respond_to?(:current_scheduler)
      return scheduler.timeout_after(seconds, klass || Error, message, &block) if scheduler.respond_to?(:timeout_after)

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
