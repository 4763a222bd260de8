# frozen_string_literal: true

require_relative "test_helper"

class TimeoutTest < Minitest::Test
  Timeout = Punctual::Timeout

  class Mine < StandardError; end

  def test_returns_what_the_block_returns
    assert_equal [:value, 5], Timeout.timeout(5) { |seconds| [:value, seconds] }
    assert_equal 0, Timeout.timeout(0) { |seconds| seconds }
    assert_nil(Timeout.timeout(nil) { |seconds| seconds })
    assert_equal 1, Timeout.timeout(Float::INFINITY) { 1 }
  end

  def test_raises_the_librarys_error
    error = assert_raises(::Timeout::Error) { Timeout.timeout(0.001) { sleep } }
    assert_equal "execution expired", error.message
    assert_match(/#{__FILE__}/, error.backtrace.first)
    error = assert_raises(::Timeout::Error) { Timeout.timeout(0.001, nil, "too slow") { sleep } }
    assert_equal "too slow", error.message
  end

  def test_a_computation_is_interrupted
    assert_raises(Timeout::Error) { Timeout.timeout(0.005) { loop { nil } } }
  end

  def test_a_class_of_ones_own_can_be_rescued
    error = assert_raises(Mine) { Timeout.timeout(0.001, Mine) { sleep } }
    assert_equal "execution expired", error.message
    assert_equal(:rescued, Timeout.timeout(0.001, Mine, "x") do
      sleep
    rescue Mine
      :rescued
    end)
  end

  def test_the_block_cannot_rescue_the_default_but_runs_ensure
    ensured = false
    assert_raises(Timeout::Error) do
      Timeout.timeout(0.001) do
        sleep
      rescue Exception # rubocop:disable Lint/RescueException, Lint/SuppressedException -- the test's subject
      ensure
        ensured = true
      end
    end
    assert ensured
  end

  def test_what_the_block_raises_passes
    assert_raises(IOError) { Timeout.timeout(5) { raise IOError } }
    assert_equal 3, catch(:out) { Timeout.timeout(5) { throw :out, 3 } }
    assert_nil(Timeout.timeout(5) { break })
  end

  def test_nested
    outer = inner = nil
    assert_raises(Timeout::Error) do
      Timeout.timeout(0.002) do
        Timeout.timeout(3600) { sleep }
      rescue Timeout::Error
        inner = true
      ensure
        outer = true
      end
    end
    assert_equal [nil, true], [inner, outer]
    assert_raises(Mine) { Timeout.timeout(3600) { Timeout.timeout(0.001, Mine) { sleep } } }
  end

  def test_many_threads
    results = Array.new(20) do |i|
      Thread.new { Timeout.timeout(i.even? ? 0.002 : 3600) { i.even? ? sleep : i } rescue :late } # rubocop:disable Style/RescueModifier
    end.map(&:value)
    assert_equal (0...20).map { |i| i.even? ? :late : i }, results
  end

  def test_nothing_comes_after_the_block
    2000.times do
      Timeout.timeout(0.0001) { nil }
    rescue Timeout::Error
      nil
    end
    Punctual::Time.sleep(0.002)
  end

  def test_bad_input
    assert_raises(ArgumentError) { Timeout.timeout(-1) { flunk } }
    assert_raises(ArgumentError) { Timeout.timeout(Float::NAN) { flunk } }
    assert_raises(NoMethodError, TypeError) { Timeout.timeout("1") { flunk } }
    assert_raises(TypeError) { Timeout.timeout(1, String) { flunk } }
  end

  def test_it_replaces_the_librarys_on_demand
    output, status = PunctualTest.run(<<~RUBY)
      require "timeout"
      class Client
        include Timeout
        def call = timeout(0.001) { sleep }
      end
      require "punctual/timeout"
      raise unless Timeout.timeout(5) { Thread.list.map(&:name).include?("punctual") }
      [-> { Timeout.timeout(0.001) { sleep } }, -> { Client.new.call }].each do |call|
        call.call
      rescue Timeout::Error => e
        puts e.message
      end
    RUBY
    assert_equal ["execution expired\n" * 2, true], [output, status.success?]
  end
end
