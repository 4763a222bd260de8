# frozen_string_literal: true

require "rbconfig"

module Punctual
  # Finds native extensions. A gem for a platform has one for each version of Ruby that it supports,
  # in a folder such as `lib/punctual/3.1`. The installation of a source gem builds one, and RubyGems
  # places it outside of these folders.
  #
  # @api private
  module Extension
    # @param folder [String] the folder `lib/punctual` of the gem
    # @param name [String] name of the extension's file, without its ending
    # @return [String] what to require
    def self.path(folder, name)
      prebuilt = File.join(folder, RUBY_VERSION[/\d+\.\d+/], name)
      File.exist?("#{prebuilt}.#{RbConfig::CONFIG["DLEXT"]}") ? prebuilt : "punctual/#{name}"
    end
  end
end
