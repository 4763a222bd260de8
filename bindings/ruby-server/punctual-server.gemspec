# frozen_string_literal: true

require_relative "../ruby/lib/punctual/version"

# `rake gem` builds the gem. Its root is the root of the repository, because the extension is built
# from the sources of the Rust crates.
Gem::Specification.new do |spec|
  here = "bindings/ruby-server"
  spec.name = "punctual-server"
  spec.version = Punctual::VERSION
  spec.summary = "A Redis-compatible server inside the process, with a clock that tests can advance"
  spec.authors = ["The Punctual authors"]
  spec.licenses = ["MIT", "Apache-2.0"]
  spec.required_ruby_version = ">= 3.1"
  spec.add_dependency "punctual", "= #{Punctual::VERSION}"

  root = File.expand_path("../..", __dir__)
  spec.files = Dir.chdir(root) do
    Dir["Cargo.toml", "LICENSE-*",
        "{crates,server}/*/{Cargo.toml,README.md,build.rs,{src,lua,tests,examples}/**/*}",
        "#{here}/{README.md,.yardopts}", "#{here}/lib/**/*.rb", "#{here}/sig/*.rbs",
        "#{here}/ext/**/{extconf.rb,Cargo.toml,Cargo.lock,*.rs}",
        "bindings/ruby/ext/{native_build.rb,punctual/src/{fork,gvl}.rs}"].select { |path| File.file?(path) }
  end
  spec.require_paths = ["#{here}/lib"]
  spec.extensions = ["#{here}/ext/punctual_server/extconf.rb"]
  spec.metadata["rubygems_mfa_required"] = "true"
end
