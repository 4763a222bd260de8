# frozen_string_literal: true

require_relative "../ruby/gem_parts"

# `rake gem` and `rake gem:prebuilt` build the gem.
Gem::Specification.new do |spec|
  spec.name = "punctual-server"
  spec.summary = "A Redis-compatible server inside the process, with a clock that tests can advance"
  spec.description = "Starts a Redis-compatible server inside a Ruby process. Keys expire on time, and a test can advance the " \
                     "server's clock. Has helpers for RSpec and Minitest."
  spec.required_ruby_version = ">= 3.1"
  spec.metadata["rubygems_mfa_required"] = "true"
  spec.add_dependency "punctual", "= #{Punctual::VERSION}"
  sources = %w[
    {crates,server}/*/{Cargo.toml,README.md,build.rs,{src,lua,tests,examples}/**/*}
    bindings/ruby/ext/punctual/src/{fork,gvl}.rs
  ]
  GemParts.fill(spec, "bindings/ruby-server", extension: "punctual_server", sources:)
end
