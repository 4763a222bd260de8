# frozen_string_literal: true

module Punctual
  class Server
    # The thread that runs the blocks of a running server's own commands, one at a time.
    #
    # The native `CommandRequests` is the queue between the event loops and this thread. An event
    # loop that has received such a command waits for its block, so a block must use the server only
    # by its {Invocation}. A slow block holds up its loop as a slow script does: after
    # `busy-reply-threshold`, other clients get the error BUSY, and SCRIPT KILL ends the command,
    # unless it has written. A stop of the server also ends it.
    class Runner
      # Seconds for which the end of a server waits for a block that still runs.
      PATIENCE = 0.2

      # Positions of kinds of parameters in an own command.
      KINDS = { req: "req", opt: "opt", rest: "rest" }.freeze
      private_constant :PATIENCE, :KINDS

      # The native queue of commands.
      attr_reader :requests

      # Returns kinds and names of the arguments that a command's block takes after its first one.
      #
      # @raise [ArgumentError] if the block does not take an {Invocation}, or has keyword arguments
      def self.parameters(block)
        # A method has the parameters of a lambda: those without a default are required.
        taken = Class.new { define_method(:run, &block) }.instance_method(:run).parameters
        first, *rest = taken
        unless first && %i[req opt].include?(first[0])
          raise ArgumentError, "a command's block takes a Punctual::Server::Invocation as its first argument"
        end

        rest.map do |kind, name|
          raise ArgumentError, "a command's block has no #{kind} parameter" unless KINDS[kind] && name

          [KINDS[kind], name.to_s]
        end
      end

      # Runs commands until the queue is closed.
      def self.serve(requests, blocks)
        thread = Thread.new do
          while (request = requests.next)
            number, invocation, args = request
            run(requests, blocks[number], invocation, args)
          end
        ensure
          # Also if the thread is killed: the server would wait for it.
          requests.close
        end
        thread.name = "punctual-commands"
        thread
      end

      def self.run(requests, block, invocation, args)
        requests.reply(block.call(invocation, *args))
      rescue CommandError => e
        requests.fail(e.message)
      rescue Exception => e # rubocop:disable Lint/RescueException -- the server has no other thread for commands
        warn("a command's block has failed: #{e.full_message(highlight: false)}")
        requests.fail("#{e.class}: #{e.message}")
      end
      private_class_method :serve, :run

      def initialize(blocks)
        @requests = CommandRequests.new
        # The thread must not reference the server, so that the server can be collected.
        @thread = self.class.send(:serve, @requests, blocks.dup.freeze)
      end

      # Ends the thread. A block that still runs is left alone.
      def stop
        @requests.close
        @thread.join(PATIENCE) unless @thread == Thread.current
      end
    end
    private_constant :Runner
  end
end
