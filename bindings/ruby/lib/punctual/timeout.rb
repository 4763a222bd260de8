# frozen_string_literal: true

require_relative "../punctual"
require_relative "timeout/timeout"

# Every `Timeout.timeout` of the program goes by Punctual from here on.
module Timeout
  class << self
    undef_method :timeout

    # See {Punctual::Timeout.timeout}.
    def timeout(...)
      Punctual::Timeout.timeout(...)
    end
  end

  undef_method :timeout

  private

  # For programs that include the module.
  def timeout(...)
    Punctual::Timeout.timeout(...)
  end
end
