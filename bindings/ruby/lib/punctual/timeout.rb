# frozen_string_literal: true

require_relative "../punctual"
require_relative "timeout/timeout"

# From here on, `Timeout.timeout` of the program calls Punctual's method.
module Timeout
  class << self
    undef_method :timeout

    # See {Punctual::Timeout.timeout}.
    def timeout(*arguments, &block)
      Punctual::Timeout.timeout(*arguments, &block)
    end
  end

  undef_method :timeout

  private

  # For classes that include the module.
  def timeout(*arguments, &block)
    Punctual::Timeout.timeout(*arguments, &block)
  end
end
