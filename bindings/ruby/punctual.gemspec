# frozen_string_literal: true

require_relative "gem_parts"

# `rake gem` and `rake gem:prebuilt` build the gem.
Gem::Specification.new do |spec|
  spec.name = "punctual"
  spec.summary = "Deadlines, exact and nearly free: timers, priority queues, Go's time API and timeouts"
  spec.description = "Timers with the API of the gem timers, priority queues with the API of d_heap, timers for event loops, " \
                     "Go's time API with a clock that tests can advance, and timeouts. The queues are in Rust, or in pure " \
                     "Ruby where the extension cannot be loaded."
  spec.required_ruby_version = ">= 3.1"
  spec.metadata["rubygems_mfa_required"] = "true"
  sources = %w[
    crates/punctual/{Cargo.toml,README.md,src/**/*,tests/**/*,examples/**/*,benches/**/*}
  ]
  GemParts.fill(spec, "bindings/ruby", extension: "punctual", sources:)
end
