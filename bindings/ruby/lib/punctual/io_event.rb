# frozen_string_literal: true

require_relative "../punctual"
begin
  require "io/event"
rescue LoadError
  # Without the gem io-event, only its timers are defined.
end

# Ruby's class, in which the gem io-event has its module.
class IO
  # The gem io-event's module.
  module Event
    remove_const(:Timers) if const_defined?(:Timers, false)

    # Selectors and schedulers that create their timers from here on use {Punctual::EventTimers}.
    Timers = Punctual::EventTimers
  end
end
