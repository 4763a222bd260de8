# frozen_string_literal: true

require_relative "../punctual"

# The name that programs of the gem timers use.
Timers = Punctual::Timers unless defined?(Timers)
