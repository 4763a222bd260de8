# frozen_string_literal: true

require_relative "punctual/version"

# Deadlines, exact and nearly free: timers, priority queues, Go's time API, timeouts, and a
# Redis-compatible server for tests.
#
# Times and intervals are numbers of seconds everywhere.
module Punctual
  pure = ENV.fetch("PUNCTUAL_PURE", "")
  # Whether the native extension is loaded. Without it (no compiler when the gem was installed,
  # another Ruby than CRuby, or `PUNCTUAL_PURE=1` in the environment) the same classes are pure
  # Ruby.
  NATIVE =
    begin
      %w[1 true yes].include?(pure) ? false : require("punctual/punctual")
      !%w[1 true yes].include?(pure)
    rescue LoadError
      false
    end

  if NATIVE && NATIVE_VERSION != VERSION
    raise LoadError, "the native extension of punctual is of version #{NATIVE_VERSION}, the gem of #{VERSION}: " \
                     "install the gem anew"
  end
end

unless Punctual::NATIVE
  require_relative "punctual/pure/schedule"
  require_relative "punctual/pure/timers"
  require_relative "punctual/pure/priority_queue"
  require_relative "punctual/pure/driver"
end

require_relative "punctual/timers/group"
require_relative "punctual/timers/timer"
require_relative "punctual/timers/interval"
require_relative "punctual/timers/wait"
require_relative "punctual/event_timers"
require_relative "punctual/priority_queue"
require_relative "punctual/time"

# What few programs need loads when it is first used.
module Punctual
  autoload :Jobs, "punctual/jobs"
  autoload :Server, "punctual/server"
  autoload :Timeout, "punctual/timeout/timeout"
end
