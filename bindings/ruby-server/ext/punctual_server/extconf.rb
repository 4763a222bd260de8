# frozen_string_literal: true

require_relative "../../../ruby/ext/native_build"

NativeBuild.new(__dir__, name: "punctual_server", library: "punctual_server_ruby", fallback: false).write
