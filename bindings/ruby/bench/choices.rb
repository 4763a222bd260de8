# frozen_string_literal: true

# What docs/choosing.md says of Ruby: structures for timers, each as plain as can be, beside the wheel of the extension.
#
#   ruby -Ilib bench/choices.rb                   the tables; SVG=folder draws the plots

require "punctual"
require_relative "measure"
require_relative "plot"

# Structures for timers. Entries are armed by `insert(time, entry)`, cancelled by `cancel(entry)`; `pop(now)` takes the first
# one that is due, or nil.
module Choices
  # A timer.
  class Entry
    attr_accessor :time, :place, :order, :cancelled
  end

  # The latest first; binary search; what is cancelled stays until it is last.
  class SortedArray
    def initialize
      @entries = []
    end

    def insert(time, entry)
      entry.time = time
      place = @entries.bsearch_index { |other| other.time <= time } || @entries.size
      @entries.insert(place, entry)
    end

    def cancel(entry)
      entry.cancelled = true
    end

    def pop(now)
      @entries.pop while @entries.last&.cancelled
      @entries.pop if (last = @entries.last) && last.time <= now
    end
  end

  # A binary heap; what is cancelled stays until it is first.
  class LazyHeap
    def initialize
      @heap = []
    end

    def insert(time, entry)
      entry.time = time
      heap = @heap
      place = heap.size
      heap << entry
      while place.positive? && time < heap[parent = (place - 1) >> 1].time
        heap[place] = heap[parent]
        place = parent
      end
      heap[place] = entry
    end

    def cancel(entry)
      entry.cancelled = true
    end

    def pop(now)
      remove_first while @heap[0]&.cancelled
      remove_first if (first = @heap[0]) && first.time <= now
    end

    private

    def remove_first
      heap = @heap
      first = heap[0]
      last = heap.pop
      return first if heap.empty?

      place = 0
      size = heap.size
      while (child = (place * 2) + 1) < size
        child += 1 if child + 1 < size && heap[child + 1].time < heap[child].time
        break if last.time < heap[child].time

        heap[place] = heap[child]
        place = child
      end
      heap[place] = last
      first
    end
  end

  # A lane for each timeout, in the order of arming, so each lane is sorted; the first of all lanes is looked for.
  class Lanes
    def initialize
      @lanes = Hash.new { |lanes, timeout| lanes[timeout] = [] }
    end

    def insert(time, entry, timeout = 5)
      entry.time = time
      @lanes[timeout] << entry
    end

    def cancel(entry)
      entry.cancelled = true
    end

    def pop(now)
      lane = nil
      @lanes.each_value do |other|
        other.shift while other.first&.cancelled
        lane = other if other.first && (!lane || other.first.time < lane.first.time)
      end
      lane.shift if lane && lane.first.time <= now
    end
  end

  # A heap of what is due within a second, and an array in no order for the rest.
  class NearFar
    def initialize
      @near = LazyHeap.new
      @far = []
      @border = 1.0
    end

    def insert(time, entry)
      return @near.insert(time, entry) if time < @border

      entry.time = time
      entry.place = @far.size
      @far << entry
    end

    def cancel(entry)
      entry.cancelled = true
      return unless (place = entry.place)

      last = @far.pop
      (@far[place] = last).place = place unless last.equal?(entry)
    end

    def pop(now)
      until (first = @near.pop(now)) || now < @border || @far.empty?
        @border += 1
        near, @far = @far.partition { |entry| entry.time < @border }
        @far.each_with_index { |entry, place| entry.place = place }
        near.each do |entry|
          entry.place = nil
          @near.insert(entry.time, entry)
        end
      end
      first
    end
  end

  # A schedule of the gem.
  class OfTheGem
    def initialize(schedule)
      @schedule = schedule
    end

    def insert(time, entry)
      entry.place = @schedule.insert(time, entry)
    end

    def cancel(entry)
      @schedule.remove(entry.place)
    end

    def pop(now)
      @schedule.fire(now) { |entry| return entry }
    end
  end

  # The gem's pure Ruby, beside the extension.
  module Pure
    folder = File.expand_path("../lib/punctual/pure", __dir__)
    %w[seconds schedule].each do |name|
      source = File.read(File.join(folder, "#{name}.rb")).gsub(/^require_relative.*/, "").gsub("module Punctual", "module Gem")
      module_eval(source)
    end
  end

  STRUCTURES = {
    "sorted array" => -> { SortedArray.new }, "lazy heap" => -> { LazyHeap.new }, "lanes" => -> { Lanes.new },
    "near and far" => -> { NearFar.new }, "4-heap with places" => -> { OfTheGem.new(Pure::Gem::Schedule.new) },
    "wheel" => -> { OfTheGem.new(Punctual::Schedule.new) }
  }.freeze
  SIZES = [10, 1_000, 31_623, 316_228].freeze
  OPERATIONS = 10_000

  module_function

  # The latest first, which suits an array; a lane has the earliest first.
  def fill(structure, size, random)
    times = Array.new(size) { random.rand * 60 }.sort
    times.reverse! unless structure.is_a?(Lanes)
    times.each { |time| structure.insert(time, Entry.new) }
    structure.pop(-1)
  end

  # Arms a timer for some time of the next minute, and cancels it; a poll every hundred.
  def arm_cancel(make, size)
    random = Random.new(size)
    fill(structure = make.call, size, random)
    times = Array.new(1000) { 0.001 + (random.rand * 60) }
    Measure.nanoseconds(OPERATIONS) do
      i = 0
      while i < OPERATIONS
        structure.insert(times[i % 1000], entry = Entry.new)
        structure.cancel(entry)
        i += 1
        structure.pop(0) if (i % 100).zero?
      end
    end
  end

  # Fires the first, and arms one for some time of the minute after it; lanes: for the whole minute.
  def fire(make, size)
    random = Random.new(size)
    fill(structure = make.call, size, random)
    lanes = structure.is_a?(Lanes)
    delays = Array.new(1000) { lanes ? 60 : 0.001 + (random.rand * 60) }
    step = 60.0 / size
    now = 0.0
    Measure.nanoseconds(OPERATIONS) do
      fired = 0
      while fired < OPERATIONS
        now += step
        while structure.pop(now)
          structure.insert(now + delays[fired % 1000], Entry.new)
          fired += 1
        end
      end
    end
  end

  def figures(workload)
    SIZES.to_h do |size|
      contestants = STRUCTURES.transform_values { |make| -> { send(workload, make, size) } }
      [size, Measure.medians(contestants, rounds: 3)]
    end
  end

  def report
    { arm_cancel: "arm and cancel", fire: "fire one, arm one" }.each do |workload, title|
      figures = figures(workload)
      puts "\n| #{title} | #{SIZES.map { |size| "N = #{size}" }.join(" | ")} |", "|---#{"|---" * SIZES.size}|"
      STRUCTURES.each_key { |name| puts "| #{name} | #{SIZES.map { |size| figures[size][name].round }.join(" | ")} |" }
      next unless (folder = ENV.fetch("SVG", nil))

      lines = STRUCTURES.keys.to_h { |name| [name, SIZES.map { |size| [size, figures[size][name]] }] }
      File.write(File.join(folder, "choose-ruby-#{workload.to_s.tr("_", "-")}.svg"),
                 Plot.new("Ruby: #{title}, nanoseconds of CPU time by timers alive", lines).to_svg)
    end
  end
end

abort "the wheel is in the native extension, which is not loaded" unless Punctual::NATIVE
Choices.report
