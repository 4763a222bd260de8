# frozen_string_literal: true

require_relative "seconds"

module Punctual
  # Objects with deadlines: a 4-heap that knows each object's place, so a cancelled one leaves at
  # once.
  #
  # A new object stays outside the heap until somebody asks for the first one: most timeouts are
  # cancelled before that, and what is due at once never enters the heap.
  #
  # Objects have `place=` and `order`, which the schedule sets. Deadlines lie in arrays of their
  # own: comparing numbers of one array is quicker than asking objects. A place is an index of the
  # heap, or -1 and less of the new ones, or from {DUE} on of those that are about to fire.
  #
  # @api private
  class Schedule
    # The first place of objects that are about to fire.
    DUE = 1 << 40

    def initialize
      @times = []
      @objects = []
      @new_times = []
      @new_objects = []
      @due = []
      @next = 0
      @order = 0
      # The earliest deadline of a new object. While objects fire, it lies after their time.
      @earliest = -Float::INFINITY
    end

    # Adds an object. O(1); it enters the heap later, in O(log n) at worst.
    #
    # @return [Integer] the object's place, which changes; the object is told
    # @raise [ArgumentError] if the time is NaN
    # @raise [TypeError] if it is no number
    def insert(time, object)
      time = Seconds.parse(time, "the time") unless time.is_a?(Float) && !time.nan?
      time = @earliest if time < @earliest
      object.order = (@order += 1)
      @new_times << time
      object.place = -(@new_objects << object).size
    end

    # Removes the object at a place: O(1) for a new one and on average, O(log n) at worst.
    #
    # @return [Boolean] true
    def remove(place)
      if place.negative? then remove_new(-place - 1)
      elsif place >= DUE then @due[place - DUE] = nil
      else
        remove_from_heap(place)
      end
      true
    end

    # O(n) while objects fire, O(1) otherwise.
    def size
      size = @times.size + @new_times.size
      size += @due.count { |entry| entry } unless @due.empty?
      size
    end

    # @return [Float, nil] the earliest deadline
    def first_time
      recall unless @due.empty?
      settle
      @times[0]
    end

    # Takes out each object that is due and yields it, until a call fails. The other objects stay.
    def fire(now)
      now = Seconds.parse(now, "the time")
      # Infinite deadlines never come.
      now = Float::MAX if now == Float::INFINITY
      before = @earliest
      @earliest = now.next_float
      recall unless @due.empty?
      settle(now)
      begin
        while (object = take(now))
          yield object
        end
      ensure
        @earliest = before
        recall unless @due.empty?
      end
    end

    # @return [Array] all objects, in no order
    def objects
      @objects + @new_objects + @due.compact.map(&:last)
    end

    private

    # Moves new objects into the heap, but for those that are due.
    def settle(now = -Float::INFINITY)
      return if @new_objects.empty?

      times = @new_times
      objects = @new_objects
      due = @due
      i = 0
      size = objects.size
      while i < size
        object = objects[i]
        time = times[i]
        if time <= now
          object.place = DUE
          due << [time, object.order, object]
        else
          @times << time
          @objects << object
          sift_up(@times.size - 1, time, object)
        end
        i += 1
      end
      times.clear
      objects.clear
      return if due.size < 2

      due.sort! # by time, then by order, which is unique
      due.each_with_index { |(_, _, entry), place| entry.place = DUE + place }
    end

    # Takes out the first object that is due, or returns nil.
    def take(now)
      due = @due
      entry = nil
      @next += 1 while @next < due.size && !(entry = due[@next])
      time = @times[0]
      if entry && (!time || entry[0] < time || (entry[0] == time && entry[1] < @objects[0].order))
        due[@next] = nil
        if (@next += 1) == due.size
          due.clear
          @next = 0
        end
        return entry[2]
      end
      return unless time && time <= now

      object = @objects[0]
      remove_from_heap(0)
      object
    end

    # Makes new objects of those that were about to fire.
    def recall
      @due.each do |entry|
        next unless entry

        @new_times << entry[0]
        entry[2].place = -(@new_objects << entry[2]).size
      end
      @due.clear
      @next = 0
    end

    def remove_new(index)
      time = @new_times.pop
      object = @new_objects.pop
      return if index == @new_objects.size

      @new_times[index] = time
      (@new_objects[index] = object).place = -index - 1
    end

    def remove_from_heap(place)
      time = @times.pop
      object = @objects.pop
      return if place == @times.size

      if place.positive? && before?(time, object, (place - 1) >> 2)
        sift_up(place, time, object)
      else
        sift_down(place, time, object)
      end
    end

    # Whether an object is due before the one at a place. Equal deadlines are due in the order of
    # insertion.
    def before?(time, object, place)
      other = @times[place]
      time < other || (time == other && object.order < @objects[place].order)
    end

    def sift_up(place, time, object)
      times = @times
      objects = @objects
      while place > 0 # rubocop:disable Style/NumericPredicate -- a call less
        parent = (place - 1) >> 2
        above = times[parent]
        break unless time < above || (time == above && object.order < objects[parent].order)

        times[place] = above
        (objects[place] = objects[parent]).place = place
        place = parent
      end
      times[place] = time
      objects[place] = object
      object.place = place
    end

    def sift_down(place, time, object)
      times = @times
      objects = @objects
      size = times.size
      while (child = (place << 2) + 1) < size
        least = child
        least_time = times[child]
        last = child + 4
        last = size if last > size
        while (child += 1) < last
          child_time = times[child]
          next unless child_time < least_time ||
                      (child_time == least_time && objects[child].order < objects[least].order)

          least = child
          least_time = child_time
        end
        break if time < least_time || (time == least_time && object.order < objects[least].order)

        times[place] = least_time
        (objects[place] = objects[least]).place = place
        place = least
      end
      times[place] = time
      objects[place] = object
      object.place = place
    end
  end
end
