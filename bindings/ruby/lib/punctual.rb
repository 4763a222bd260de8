# frozen_string_literal: true

require_relative "punctual/version"
require_relative "punctual/extension"

# Timers, priority queues, Go's time API and timeouts. The gem punctual-server adds a
# Redis-compatible server for tests.
#
# All times and intervals are numbers of seconds.
module Punctual
  pure = %w[1 true yes].include?(ENV.fetch("PUNCTUAL_PURE", ""))
  # True if the native extension is loaded. Without it (no Rust when the gem was installed, another
  # Ruby than CRuby, or `PUNCTUAL_PURE=1` in the environment) the same classes are pure Ruby.
  NATIVE =
    begin
      require(Extension.path("#{__dir__}/punctual", "punctual")) unless pure
      !pure
    rescue LoadError => e
      if RUBY_ENGINE == "ruby"
        warn "punctual: no native extension (#{e.message}): pure Ruby is several times slower. Install the gem again, with " \
             "Rust, or choose pure Ruby with PUNCTUAL_PURE=1, which ends this warning"
      end
      false
    end

  # @return [Boolean] the value of {NATIVE}
  def self.native?
    NATIVE
  end

  if NATIVE && NATIVE_VERSION != VERSION
    raise LoadError, "the native extension of punctual has version #{NATIVE_VERSION}, the gem has version #{VERSION}: " \
                     "install the gem again"
  end

  unless NATIVE
    require_relative "punctual/pure/schedule"
    require_relative "punctual/pure/timers"
    require_relative "punctual/pure/priority_queue"
    require_relative "punctual/pure/java_numbers" if RUBY_ENGINE == "jruby" && !pure
    require_relative "punctual/pure/driver"
  end
end

require_relative "punctual/timers/group"
require_relative "punctual/timers/timer"
require_relative "punctual/timers/interval"
require_relative "punctual/timers/wait"
require_relative "punctual/timers/events"
require_relative "punctual/event_timers"
require_relative "punctual/priority_queue"
require_relative "punctual/time"

# Few programs need these modules, so they are loaded at their first use.
module Punctual
  autoload :Jobs, "punctual/jobs"
  autoload :Server, "punctual/server"
  autoload :Timeout, "punctual/timeout/timeout"
end
