# frozen_string_literal: true

require_relative "../native_build"

NativeBuild.new(__dir__, name: "punctual", library: "punctual_ruby", fallback: true).write
