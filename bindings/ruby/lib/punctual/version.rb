# frozen_string_literal: true

module Punctual
  # The version of the gem and of its native extension.
  VERSION = "0.1.0"
end
