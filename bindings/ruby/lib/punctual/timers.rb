# frozen_string_literal: true

require_relative "../punctual"

unless defined?(Timers)
  # Programs that use the gem timers use this name.
  Timers = Punctual::Timers
  # A later `require "timers"` does nothing: the gem would reopen these classes.
  files = %w[timers timers/group timers/timer timers/interval timers/wait timers/events timers/version]
  files.each { |name| $LOADED_FEATURES << "#{name}.rb" }
end
