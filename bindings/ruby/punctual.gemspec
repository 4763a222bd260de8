# frozen_string_literal: true

require_relative "lib/punctual/version"

# `rake gem` builds the gem. Its root is the root of the repository, because the extension is built from the sources of the Rust
# crates.
Gem::Specification.new do |spec|
  here = "bindings/ruby"
  spec.name = "punctual"
  spec.version = Punctual::VERSION
  spec.summary = "Deadlines, exact and nearly free: timers, priority queues, timeouts, and a Redis-compatible server for tests"
  spec.authors = ["The Punctual authors"]
  spec.licenses = ["MIT", "Apache-2.0"]
  spec.required_ruby_version = ">= 3.1"

  root = File.expand_path("../..", __dir__)
  spec.files = Dir.chdir(root) do
    Dir["Cargo.toml", "LICENSE-*",
        "{crates,server}/*/{Cargo.toml,README.md,build.rs,{src,lua,tests,examples}/**/*}",
        "#{here}/{README.md,.yardopts}", "#{here}/lib/**/*.rb", "#{here}/sig/*.rbs",
        "#{here}/ext/**/{extconf.rb,Cargo.toml,Cargo.lock,*.rs}"].select { |path| File.file?(path) }
  end
  spec.require_paths = ["#{here}/lib"]
  spec.extensions = ["#{here}/ext/punctual/extconf.rb"]
  spec.metadata["rubygems_mfa_required"] = "true"
end
