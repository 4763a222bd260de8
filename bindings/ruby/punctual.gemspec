# frozen_string_literal: true

require_relative "lib/punctual/version"

# `rake gem` builds the gem. Its root is the root of the repository, because the extension is built
# from the sources of the Rust crate.
#
# With `PUNCTUAL_PREBUILT=1`, the gem has the extension that `rake compile` built, and no sources of
# it: such a gem is for this platform and this version of Ruby, and its installation needs neither
# Rust nor libclang.
Gem::Specification.new do |spec|
  here = "bindings/ruby"
  prebuilt = ENV["PUNCTUAL_PREBUILT"] == "1"
  spec.name = "punctual"
  spec.version = Punctual::VERSION
  spec.summary = "Deadlines, exact and nearly free: timers, priority queues, Go's time API and timeouts"
  spec.authors = ["The Punctual authors"]
  spec.licenses = ["MIT", "Apache-2.0"]
  # An extension works with one version of Ruby only.
  spec.required_ruby_version = prebuilt ? "~> #{RbConfig::CONFIG["ruby_version"]}" : ">= 3.1"

  files = ["LICENSE-*", "#{here}/{README.md,.yardopts}", "#{here}/lib/**/*.rb", "#{here}/sig/*.rbs"]
  if prebuilt
    files << "#{here}/lib/punctual/punctual.{so,bundle}"
    spec.platform = Gem::Platform.local
  else
    files.push("Cargo.toml", "crates/punctual/{Cargo.toml,README.md,src/**/*,tests/**/*,examples/**/*,benches/**/*}",
               "#{here}/ext/**/{*.rb,Cargo.toml,Cargo.lock,*.rs}")
    spec.extensions = ["#{here}/ext/punctual/extconf.rb"]
  end
  root = File.expand_path("../..", __dir__)
  spec.files = Dir.chdir(root) { Dir[*files].select { |path| File.file?(path) } }
  spec.require_paths = ["#{here}/lib"]
  spec.metadata["rubygems_mfa_required"] = "true"
end
