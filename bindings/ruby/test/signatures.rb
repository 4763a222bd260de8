# frozen_string_literal: true

# Compares the names in the signature files with both gems: every public method has a signature, and
# every signature has a method. If the gem rbs is installed, the files are also parsed and their
# types are resolved.

require "punctual"
require "punctual/d_heap"
require "punctual/server"

# The classes and modules of the signature files, and their methods.
class Signatures
  FILES = %w[../sig/punctual.rbs ../../ruby-server/sig/punctual-server.rbs].map { |path| File.expand_path(path, __dir__) }
  # Methods that need no signature in a class: most are inherited.
  HIDDEN = %i[initialize inspect freeze].freeze
  # Private API that other classes of the gem call.
  INTERNAL = {
    "Punctual::EventTimers::Handle" => %i[place place= order order=], "Punctual::Time::Timer" => [:fire],
    "Punctual::Time::Ticker" => [:fire], "Punctual::Timers::Group" => [:schedule],
    "Punctual::Timers::Timer" => %i[place place= order order=],
    "Punctual::Time::VirtualClock" => %i[arm disarm call own? seconds arm_at size]
  }.freeze

  def self.read
    names = []
    methods = Hash.new { |hash, name| hash[name] = [] }
    FILES.flat_map { |file| File.readlines(file, encoding: "UTF-8") }.each do |line|
      case line
      when /^\s*(?:class|module) (\w+)/ then names << $1
      when /^\s*interface/ then names << nil
      when /^\s*end$/ then names.pop
      when /^\s*(?:def|alias|attr_reader) (self\.)?([^\s:]+[?!=]?):?[\s(]/
        next if names.include?(nil)

        method = $2.delete_suffix(":")
        methods[names.join("::")] << ["#{"." if $1}#{method}", method.to_sym]
      end
    end
    methods
  end

  def self.faults
    all = read
    all.to_a.flat_map do |name, signatures|
      place = Object.const_get(name)
      own, single = signatures.partition { |text, _| !text.start_with?(".") }
      missing = own.reject { |_, method| place.method_defined?(method) || place.private_method_defined?(method) }
      missing += single.reject { |_, method| place.respond_to?(method) }
      signed = place.ancestors.flat_map { |ancestor| all[ancestor.name].map(&:last) }
      unsigned = place.public_instance_methods(false) - signed - HIDDEN - INTERNAL.fetch(name, [])
      unsigned = [] if place.instance_of?(Module)
      missing.map { |text, _| "#{name}: #{text} has a signature but is not there" } +
        unsigned.map { |method| "#{name}##{method} has no signature" }
    end
  end
end

faults = Signatures.faults
begin
  require "rbs"
  environment = RBS::Environment.new
  loader = RBS::EnvironmentLoader.new
  %w[set].each { |library| loader.add(library:) }
  Signatures::FILES.each { |file| loader.add(path: Pathname(file)) }
  loader.load(env: environment)
  environment.resolve_type_names
rescue LoadError
  puts "skipped: the gem rbs is not installed, so the signatures are not parsed"
end
abort faults.join("\n") unless faults.empty?
puts "ok: the signatures match the gem's methods"
