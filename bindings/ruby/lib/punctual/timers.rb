# frozen_string_literal: true

require_relative "../punctual"

unless defined?(Timers)
  # The name that programs of the gem timers use.
  Timers = Punctual::Timers
  # Libraries that require that gem get this one: loading it would reopen these classes.
  %w[timers timers/group timers/timer timers/interval timers/wait].each { |name| $LOADED_FEATURES << "#{name}.rb" }
end
