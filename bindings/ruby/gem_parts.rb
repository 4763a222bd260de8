# frozen_string_literal: true

require_relative "lib/punctual/version"

# The parts that the gemspecs of both gems share. The root of both gems is the root of the
# repository, because their extensions are built from the sources of the Rust crates.
#
# With `PUNCTUAL_PREBUILT=1`, a gem has the extensions that `rake compile` built, and no sources of
# them. Such a gem is for this platform and the versions of Ruby for which extensions were built.
# Its installation needs neither Rust nor libclang.
module GemParts
  ROOT = File.expand_path("../..", __dir__)
  REPOSITORY = "https://github.com/punctual-rs/punctual"

  # @param folder [String] the gem's folder in the repository
  # @param extension [String] name of the extension
  # @param sources [Array<String>] patterns of the files from which the extension is built
  def self.fill(spec, folder, extension:, sources:)
    spec.version = Punctual::VERSION
    spec.authors = ["The Punctual authors"]
    spec.licenses = ["MIT", "Apache-2.0"]
    spec.homepage = REPOSITORY
    spec.metadata.update(
      "source_code_uri" => "#{REPOSITORY}/tree/main/#{folder}",
      "documentation_uri" => "#{REPOSITORY}/blob/main/#{folder}/README.md",
      "changelog_uri" => "#{REPOSITORY}/blob/main/CHANGELOG.md",
      "bug_tracker_uri" => "#{REPOSITORY}/issues"
    )
    spec.require_paths = ["#{folder}/lib"]
    files = ["LICENSE-*", "#{folder}/{README.md,.yardopts}", "#{folder}/lib/**/*.rb", "#{folder}/sig/*.rbs"]
    if ENV["PUNCTUAL_PREBUILT"] == "1"
      prebuilt(spec, files, "#{folder}/lib/punctual", extension)
    else
      spec.extensions = ["#{folder}/ext/#{extension}/extconf.rb"]
      files.push("Cargo.toml", "bindings/ruby/ext/{native_build,ruby_api}.rb", "bindings/ruby/ext/api/**/*",
                 "bindings/ruby/lib/punctual/version.rb",
                 "#{folder}/ext/#{extension}/**/{extconf.rb,Cargo.toml,Cargo.lock,*.rs}", *sources)
    end
    spec.files = found(*files)
  end

  def self.prebuilt(spec, files, folder, extension)
    # An extension works with one version of Ruby only.
    extensions = found("#{folder}/*/#{extension}.{so,bundle}")
    raise "#{extension} is not built: run `rake compile`" if extensions.empty?

    files.concat(extensions)
    rubies = extensions.map { |path| Gem::Version.new(path[%r{([\d.]+)/[^/]+$}, 1]) }
    spec.required_ruby_version = [">= #{rubies.min}", "< #{Gem::Version.new("#{rubies.max}.0").bump}.dev"]
    spec.platform = Gem::Platform.local.then { |local| "#{local.cpu}-#{local.os}" }
  end

  def self.found(*patterns)
    Dir.chdir(ROOT) { Dir[*patterns].select { |path| File.file?(path) }.uniq }
  end
  private_class_method :prebuilt, :found
end
