# frozen_string_literal: true

module Punctual
  # Conversion of numbers of seconds.
  #
  # @api private
  module Seconds
    # @return [Float]
    # @raise [TypeError, ArgumentError] as the native extension does
    def self.parse(value, what)
      raise TypeError, "can't convert #{value.class} into Float" unless value.is_a?(Numeric)

      value = value.to_f
      raise ArgumentError, "#{what} is NaN" if value.nan?

      value
    end
  end
end
