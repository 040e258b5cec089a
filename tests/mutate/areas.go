package main

// areas are the functions that the operators change, and the packages whose tests must notice.
var areas = []area{
	{
		pkg:       ".",
		tests:     []string{"."},
		functions: `(*Bitmap).Test (*Bitmap).find SetOptions.stored ttl`,
	},
	{
		pkg:       "./backup",
		tests:     []string{"./backup", "./cmd/kvshell"},
		functions: `Restore check extract`,
	},
	{
		pkg:   "./bitmapext",
		tests: []string{"./bitmapext", "."},
		functions: `
			(*String).Find (*String).Streak (*String).edit (*String).intoBlocks (*String).lines
			(*String).next (*String).part (*String).rebuild (*String).setRange (*combination).and
			(*combination).fold (*combination).next (*editor).done (*editor).putInBlock (*field).at (*field).extended
			(*verifier).Block (*verifier).Done (*words).and (*words).andNot (*words).flip (*words).lines (*words).or
			(*words).orTwice (*words).set (*words).setBytes (*words).xor InMemory Look SetBit SetRange bitNumber
			checkLength combine editFields open store`,
	},
	{
		pkg:   "./bloomext",
		tests: []string{"./bloomext", "./scalableext"},
		functions: `
			(*Filter).AddFitting (*Filter).Added (*Filter).BatchSize (*Filter).ImportForeign (*Filter).MayContain (*Filter).add
			(*Filter).adding (*Filter).beginLoad (*Filter).logging (*Filter).remember (*Filter).residentSeries (*Filter).stage
			(*ahead).add (*ahead).store (*filter).alive (*filter).asked (*filter).capacity (*filter).dumpChunk
			(*filter).fewItems (*filter).info (*filter).noted (*filter).pair (*filter).pairInMemory (*flat).checkEnd
			(*flat).inMemory (*flat).leaveOutSet (*flat).place (*flatParams).valid (*foreignFile).copyTo (*stager).absent
			(*stager).addAll (*stager).addFull (*stager).addPair (*stager).addPairs (*stager).addRecent (*stager).appendLog
			(*stager).baseHas (*stager).beginFilling (*stager).endLog (*stager).fillFrom (*stager).full (*stager).growFlat
			(*stager).growFor (*stager).growLogged (*stager).growSlice (*stager).log (*stager).newAhead (*stager).replaceNewest
			(*stager).roomIn (*stager).setPair (*stager).smallFrom (*stager).turn (*stager).unlogged (*sure).has
			(*verifier).Done (*verifier).checkLog Config.growthLog Config.planCompatible askPairs compact configOf
			countLoaded decodeDump decodeForeignParams fill filledAhead flatParams.String forget inLog logarithm
			makeAhead mayContainRecent newFlat openFilter openFlat openForeign prepare putBytes putItems putLog putUnion
			readForeignFile readPart rebuild scanDump scheme.number shorten stageFitting stageMany stagePairs stageRecent
			unite uniteLayer uniteLogs wake widen windowFacts`,
	},
	{
		pkg:   "./cmd/kvshell",
		tests: []string{"./cmd/kvshell"},
		functions: `
			(*interactive).carryOut (*logFlags).handler (*planFlags).check (*script).do (*script).hint (*script).result
			(*shell).bench (*shell).benchParent (*shell).checkStore (*shell).dedup (*shell).hintText (*shell).importRDB
			(*shell).load (*shell).loadToStore (*shell).openError (*shell).openFor (*shell).openToServe (*shell).reporting
			(*shell).runCommand (*shell).salvage (*shell).serveCommand (*shell).tell removeCopy unknownOption`,
	},
	{
		pkg:       "./cmd/kvshell/internal/bench",
		tests:     []string{"./cmd/kvshell/internal/bench"},
		functions: `(*Run).measure`,
	},
	{
		pkg:       "./cmd/kvshell/internal/client",
		tests:     []string{"./cmd/kvshell/internal/client", "./cmd/kvshell"},
		functions: `(*Flags).check (*connection).ask`,
	},
	{
		pkg:       "./cmd/kvshell/internal/cliflags",
		tests:     []string{"./cmd/kvshell/internal/cliflags"},
		functions: `countValue.Set parseCount`,
	},
	{
		pkg:   "./cmd/kvshell/internal/dedup",
		tests: []string{"./cmd/kvshell", "./cmd/kvshell/internal/dedup"},
		functions: `
			(*Pass).finish (*Pass).forget (*Pass).openOut (*Pass).resume (*Pass).run (*Pass).stageRecord (*Pass).stored
			(*Pass).toOut (*outFile).compare (*outFile).cutOff (*outFile).goOn (*outFile).write openOutFile`,
	},
	{
		pkg:       "./cmd/kvshell/internal/filters",
		tests:     []string{"./cmd/kvshell"},
		functions: `(*Flags).bloomConfig`,
	},
	{
		pkg:       "./cmd/kvshell/internal/edit",
		tests:     []string{"./cmd/kvshell/internal/edit"},
		functions: `(*Editor).Confirm (*Editor).insert (*Editor).press (*screen).drawRow (*screen).moveTo decodeSequence layOut`,
	},
	{
		pkg:       "./cmd/kvshell/internal/input",
		tests:     []string{"./cmd/kvshell/internal/input", "./cmd/kvshell"},
		functions: `(*Input).Look (*Input).open`,
	},
	{
		pkg:       "./cmd/kvshell/internal/load",
		tests:     []string{"./cmd/kvshell"},
		functions: `(*ServerLoading).make (*insertion).knownBefore`,
	},
	{
		pkg:   "./internal/migrate/rdb",
		tests: []string{"./internal/migrate/rdb"},
		functions: `
			(*Reader).Next (*Reader).aux (*Reader).checksum (*Reader).end (*Reader).next (*Reader).string
			(*fieldReader).cuckoo (*lzf).Read (*lzf).repeat Key.IsFilter OpenDump`,
	},
	{
		pkg:       "./cmd/kvshell/internal/report",
		tests:     []string{"./cmd/kvshell"},
		functions: `(*keyStats).kindRows`,
	},
	{
		pkg:   "./cmd/kvshell/internal/serve",
		tests: []string{"./cmd/kvshell", "./cmd/kvshell/internal/serve"},
		functions: `
			(*Service).Close (*Service).Serve (*Service).leaveAddress (*Service).prepare (*Service).readSecret
			(*Service).readSecrets (*Service).serveMetrics (*clientAuth).tls (*lastResort).begin (*tlsFiles).outOfTime
			(*tlsFiles).read New certificates listenUnix othersMay`,
	},
	{
		pkg:       "./cmd/kvshell/internal/suggest",
		tests:     []string{"./cmd/kvshell/internal/suggest"},
		functions: `Closest`,
	},
	{
		pkg:   "./internal/migrate",
		tests: []string{"./internal/migrate"},
		functions: `
			(*Report).Text (*fileRun).copyKey (*run).copyPart (*run).equal (*run).existing (*run).finish (*run).inPieces
			(*run).life (*run).load (*run).putLong (*run).putStrings (*run).removeCopy (*run).tryFilter (*run).unchanged
			about`,
	},
	{
		pkg:       "./cmd/kvshell/internal/tty",
		tests:     []string{"./cmd/kvshell/internal/tty", "./cmd/kvshell"},
		functions: `(*Pager).moreLines breakAt`,
	},
	{
		pkg:       "./compaction",
		tests:     []string{"./compaction"},
		functions: `(*service).Start (*service).Stop (*service).compact (*service).fold`,
	},
	{
		pkg:       "./coreext",
		tests:     []string{"./server", "./coreext"},
		functions: `backupDir backupPath get someStats`,
	},
	{
		pkg:   "./countingext",
		tests: []string{"./countingext", "./kv"},
		functions: `
			(*Filter).MayContain (*stager).matching (*stager).watchKept (*stager).withRoom insert layerParams.append
			openFilter reserve unionOrdered unite`,
	},
	{
		pkg:   "./cuckooext",
		tests: []string{"./cuckooext", "./kv"},
		functions: `
			(*Filter).MayContain (*Filter).addIfAbsent (*Filter).beginLoad (*Filter).loadSlots (*compacter).move
			(*filter).dumpChunk (*filter).findIn (*filter).occupied (*filter).setGeometries
			(*geometry).load (*geometry).most (*geometry).partner (*geometry).place (*layer).follows (*layer).grownFrom (*layer).nestedIn
			(*stager).addAgain (*stager).addCompatible (*stager).addTo (*stager).compactFrom (*stager).compactionFits
			(*stager).enough (*stager).growCompatible (*stager).kick (*stager).relocate (*stager).removeCompatible compact
			dumpHeader.spec extent.next layerParams.append load putNative putSlots scanDump smallest`,
	},
	{
		pkg:   "./guard",
		tests: []string{"./guard"},
		functions: `
			(*Guard).Close (*Guard).Get (*Guard).GetMany (*Guard).PutVia (*Guard).Warm (*Guard).add (*Guard).addEverywhere
			(*Guard).ask (*Guard).await (*Guard).awaitTurn (*Guard).batches (*Guard).beginRebuild (*Guard).beginVia
			(*Guard).beginWarm (*Guard).callSource (*Guard).change (*Guard).commit (*Guard).deleteEverywhere
			(*Guard).dropFull (*Guard).dropNext (*Guard).enter (*Guard).finish (*Guard).forgetRecords (*Guard).generations
			(*Guard).getMany (*Guard).isLoading (*Guard).join (*Guard).joinMany (*Guard).leave (*Guard).load
			(*Guard).lookAgain (*Guard).prepare (*Guard).read (*Guard).readMeta (*Guard).readNext (*Guard).rebuild
			(*Guard).refresh (*Guard).refuse (*Guard).remember (*Guard).run (*Guard).settle (*Guard).settleAll
			(*Guard).stateOf (*Guard).take (*Guard).turn (*Guard).wait (*Guard).warm (*Guard).write (*Options).validate
			(*breakerChanges).note (*entry).at (*entry).lifetime (*load).mayMissPut (*load).tooOld (*passRate).begin
			(*passRate).endWindow (*passRate).pass (*passRate).refuse (*sketch).add (*sketch).count Middleware New
			NewCollector Once OnceTx beginOnce encoded runOnce unfiltered`,
	},
	{
		pkg:   "./internal/memory",
		tests: []string{"./internal/memory", "./kv"},
		functions: `
			(*Layer).Close (*Layer).Install (*Layer).Release (*Layer).ReplaceZero (*Object).Init (*Object).MoveOn
			(*Object).Begin (*Object).SetTimed (*Object).begin (*SlotSection).Block (*SlotSection).Note (*SlotSection).Valid
			(*SlotSection).ValidOnDisk (*SlotSection).unchanged places`,
	},
	{
		pkg:   "./kv",
		tests: []string{"./kv", "./txn", "./bloomext", "."},
		functions: `
			(*Builder).Put (*Builder).flush (*DB).Acknowledge (*DB).Close (*DB).CompactKey (*DB).CompactQueued (*DB).Fold
			(*DB).ItemHash (*DB).Metrics (*DB).ReadWith (*DB).Reclaim (*DB).settled (*DB).StringInMemory (*DB).Sweep
			(*DB).View (*DB).awaitSequence (*DB).begin (*DB).checkSpec (*DB).closeObject (*DB).commitRepair (*DB).compact
			(*DB).countEntries (*DB).countExpiring (*DB).dropUnwritten (*DB).enter (*DB).findDropped (*DB).foldBlock
			(*DB).foldedBlock (*DB).hasFailed (*DB).newObjectID (*DB).newSnapshot (*DB).newWriter
			(*DB).ownSecret (*DB).readAndInstall (*DB).readBlock (*DB).readSecret (*DB).reclaimSmall (*DB).releaseEnded
			(*DB).sweep (*DB).track (*Object).string (*Transaction).Commit
			(*Transaction).Write (*Transaction).read (*Transaction).release (*Watch).Add (*Watch).Changed
			(*Writer).AddWords (*Writer).Copy (*Writer).Delete (*Writer).DeleteAll (*Writer).Expire (*Writer).HasBits
			(*Writer).HasItems (*Writer).Hidden (*Writer).Now (*Writer).ReplaceLayers (*Writer).Rename (*Writer).RenameIfFree
			(*Writer).Room (*Writer).SetItems (*Writer).SetNewBits (*Writer).SetSlots (*Writer).Shrink
			(*Writer).addBitBlock (*Writer).addKey (*Writer).addLayer (*Writer).apply
			(*Writer).beginStrings (*Writer).build (*Writer).changedObjects (*Writer).commit (*Writer).copyBlocks
			(*Writer).copySlots (*Writer).dropLayer (*Writer).endStrings (*Writer).find (*Writer).findBits (*Writer).fits
			(*Writer).forgetGone (*Writer).forgetUnchanged (*Writer).lockFor (*Writer).logCounters (*Writer).logKey
			(*Writer).logSlots (*Writer).lookAt (*Writer).lookFor (*Writer).needsSequence (*Writer).put (*Writer).release
			(*Writer).removeExpired (*Writer).renew (*Writer).rollBack (*Writer).runWithSavepoint (*Writer).setKeyCounts
			(*Writer).slotBlock (*Writer).stageBits (*Writer).stageDrops (*Writer).stageExpiry (*Writer).stageLayerDrops
			(*Writer).stageSlots (*Writer).stageWake (*Writer).stored (*Writer).takeBackBits
			(*Writer).takeBackSlots (*Writer).tellWatches (*Writer).writeBlocks (*applier).apply (*applier).applyPart (*applier).begin (*applier).beginObject
			(*applier).beginPart (*applier).end (*applier).layersOf
			(*applier).header (*applier).take (*headers).find (*slotBlock).shorten (*snapshot).borrow (*snapshot).borrowing
			(*snapshot).keep (*snapshot).load (*snapshot).take Open Reader.eachHeader damagedBeside damagedBy
			enterTransaction (*live).load (*live).find (*live).section (*live).valid`,
	},
	{
		pkg:   "./internal/block",
		tests: []string{"./internal/block", "./internal/storage", "./kv", "./bloomext"},
		functions: `
			(*BitSet).AddItems (*BitSet).AddTo (*BitSet).AppendChange (*BitSet).Expand (*Patcher).Patch (*BitSet).Set (*BitSet).spread
			(*Joiner).Append (*Joiner).appendItems (*Joiner).appendPositions (*Joiner).appendRun (*Joiner).appendSlots (*Joiner).merge
			(*sequence).accepts (*sequence).add (*sequence).appendRun (*value).fits (*value).parseItems (*value).parseRun
			Decode LastOfEach firstHash preferItems putPositions`,
	},
	{
		pkg:       "./internal/check",
		tests:     []string{"./internal/check", "./salvage", "./tests"},
		functions: `(*Checker).Repair (*Checker).header (*Checker).wakeNotes (*object).wake`,
	},
	{
		pkg:       "./internal/expiry",
		tests:     []string{"./kv"},
		functions: `(*Hint).Due (*Hint).First (*Hint).Leave (*Hint).Raise (*Hint).Take`,
	},
	{
		pkg:       "./internal/format",
		tests:     []string{"./internal/format", "./internal/storage", "./kv"},
		functions: `DecodeHeaderShared DecodeSidecar DecodeStoreMeta KeepsString`,
	},
	{
		pkg:   "./internal/freeze",
		tests: []string{"./internal/freeze", "./internal/storage"},
		functions: `
			(*FS).Create (*FS).Freeze (*FS).Link (*FS).MkdirAll (*FS).Open (*FS).OpenDir (*FS).Rename (*FS).ReuseForWrite
			(*FS).Stat (*FS).change (*FS).changeIfNotFrozen (*FS).completed (*FS).openForWriting (*FS).other (*FS).retry
			(*FS).syncDir (*Space).Close (*Space).Start (*Space).check (*Space).diskFull (*Space).ensureBallast
			(*Space).makeBallast (*Space).refuseIfLow (*Space).watch (*ballast).adopt (*ballast).create (*ballast).fill
			(*ballast).release (*otherFile).Write (*vitalFile).Close (*vitalFile).Stat (*vitalFile).Sync
			(*vitalFile).SyncTo (*vitalFile).Write (*vitalFile).allocate EachRecord decodeSeal mark shortWrite`,
	},
	{
		pkg:   "./internal/gate",
		tests: []string{"./internal/gate"},
		functions: `
			(*Gate).GiveUp (*Gate).Join (*Gate).Press (*Gate).RUnlock (*Gate).Refuse (*Gate).TryRLock (*Gate).Unlock
			(*Gate).WhileAlone (*Gate).firstAlone (*Gate).letIn (*Gate).letShare (*Gate).mark (*Gate).tick (*Gate).ticked
			(*Idle).Start (*Idle).TooLong (*Uses).Begin (*Uses).End Inside Run runIsOnStack`,
	},
	{
		pkg:       "./internal/glob",
		tests:     []string{"./internal/glob", "./coreext"},
		functions: `(*Pattern).Match New bracketed`,
	},
	{
		pkg:   "./internal/hash",
		tests: []string{"./internal/hash"},
		functions: `
			(*highway).rest (*table).fold (*table).sumPairs Decode Function.Sum NewSecret SumHighway SumMurmur3Twice expand
			murmur3.end murmur64A`,
	},
	{
		pkg:   "./internal/hot",
		tests: []string{"./internal/hot"},
		functions: `
			(*Cache).BeginAll (*Cache).End (*Cache).EndAll (*Cache).Fill (*Cache).Try (*shard).begin (*shard).get
			(*store).evict (*store).find (*store).put New entry.setValue`,
	},
	{
		pkg:       "./internal/probe",
		tests:     []string{"./internal/probe", "./bloomext"},
		functions: `(*Draft).copy (*Layout).Prepare (*Layout).SameBlock NewDraft request.layout`,
	},
	{
		pkg:       "./internal/queue",
		tests:     []string{"./internal/queue"},
		functions: `(*Queue).Add (*Queue).Take (*Queue).TakeAll`,
	},
	{
		pkg:       "./internal/radix",
		tests:     []string{"./internal/radix"},
		functions: `Sort`,
	},
	{
		pkg:       "./internal/residency",
		tests:     []string{"./kv"},
		functions: `(*Residency).Remove`,
	},
	{
		pkg:   "./internal/storage",
		tests: []string{"./internal/storage", "./kv", "./backup", "./salvage"},
		functions: `
			(*Batch).SetBits (*Batch).addTo (*Batch).end (*Store).AwaitRoom (*Store).Commit (*Store).pendLocked (*Store).Compact (*Store).End (*Store).Metrics (*Store).backup
			(*Store).backupError (*Store).checkSidecar (*Store).keysOf (*Store).mustSpare (*Store).open
			(*Store).openReadOnly (*Store).readSidecar (*Store).refuseInside (*Store).removeArchives (*Store).storeSidecar
			(*Store).watchGround (*backup).create (*backup).link (*backup).room (*backupFile).Write (*backups).run
			(*ground).take (*index).add (*index).build (*index).holds (*index).lookUp (*index).number
			(*index).reset (*index).set (*joiner).join (*lockedFile).renew (*lockedFile).take
			(*pending).operand (*pending).value (*scheduler).Done (*scheduler).TrySchedule (*scheduler).grant (*scheduler).offer
			(*scheduler).room (*scheduler).start DeleteAll ReadError RefuseSize Unfinished lockDirectory openStore
			writeFileSync`,
	},
	{
		pkg:   "./internal/storage/remains",
		tests: []string{"./internal/storage/remains", "./salvage"},
		functions: `
			(*checker).table (*decoder).bytes (*decoder).key (*decoder).table (*decoder).uvarint (*examination).changedLater
			(*examination).commits (*examination).formatMarker (*examination).found1 (*examination).guess
			(*examination).guessedManifest (*examination).list (*examination).log (*examination).logs
			(*examination).manifest (*examination).noLog (*examination).oldManifests (*examination).refuseNewer
			(*examination).run (*examination).sidecar (*examination).small (*examination).tables (*examination).torn
			(*examination).withoutStrays (*rebuild).block (*rebuild).deletions (*rebuild).listed (*rebuild).lose
			(*rebuild).noDeletions (*rebuild).scanned (*rebuild).spansOf (*version).apply (*version).reached CheckTable Merged
			Reached checkOptions known
			manifestNumber marker plain readManifest`,
	},
	{
		pkg:       "./internal/text",
		tests:     []string{"./internal/text", "./coreext"},
		functions: `Plain`,
	},
	{
		pkg:       "./internal/watch",
		tests:     []string{"./kv", "./txn", "./internal/watch"},
		functions: `(*Table).Remove (*Table).Set`,
	},
	{
		pkg:   "./module",
		tests: []string{"./module", "./coreext", "./server", "./txn"},
		functions: `
			(*Call).Borrow (*Call).Now (*Call).charging (*Host).Start (*Host).Stop (*Session).DoNamed (*Session).InSeries
			(*Session).runIn (*Table).CheckSettings (*Table).checkSettings (*Table).setting (*setting).current FloatSetting
			IntegerSetting validateSetting`,
	},
	{
		pkg:       "./module/reply",
		tests:     []string{"./module/reply"},
		functions: `appendPrintable appendText`,
	},
	{
		pkg:   "./portable",
		tests: []string{"./portable"},
		functions: `
			(*Filter).WriteTo (*blocks).index (*blocks).load (*decoder).fill (*decoder).next (*decoder).prefix (*encoder).block
			(*encoder).bytes (*encoder).end (*fields).byte (*fields).bytes (*fields).uvarint (*importer).put
			(*importer).putString (*importer).stage (*reading).blocks (*reading).end (*reading).header (*reading).oneBlock
			(*reading).rest ExportFrom Import check checksum decodeContents exportBlocks inFile newEncoder
			readFilter`,
	},
	{
		pkg:   "./salvage",
		tests: []string{"./salvage"},
		functions: `
			(*Report).Whole (*copying).blocks (*copying).look (*copying).to (*left).changed (*left).tell (*left).whole
			(*recovery).all (*recovery).key Check Recover eachKey isLoss look open recoverTo repair`,
	},
	{
		pkg:   "./scalableext",
		tests: []string{"./scalableext", "./bloomext", "./cuckooext", "."},
		functions: `
			(*Cells).layout (*Merging).union ChainRate EachBatch ExpiresAt Log.LogRoom Log.Overdue Open Params.FilledLayer
			Params.Slice Params.SmallLayer Params.UnequalHash Shown Window.Ends Window.Takes decodeParams sortByBlock`,
	},
	{
		pkg:       "./internal/filtercmd",
		tests:     []string{"./internal/filtercmd", "./bloomext", "./cuckooext", "."},
		functions: `AddSeries addSeries parseOptions settle`,
	},
	{
		pkg:   "./internal/dump",
		tests: []string{"./internal/dump", "./bloomext", "./cuckooext", "."},
		functions: `
			(*Loading).endNative (*Loading).payload (*Loading).place (*Loading).progress decodeDumpHeader`,
	},
	{
		pkg:   "./server",
		tests: []string{"./server"},
		functions: `
			(*MetricsOptions).guard (*MetricsOptions).refusal (*Server).MetricsConnContext (*Server).Shutdown
			(*Server).await (*Server).delayMetrics (*Server).fitClients (*Server).isFull (*Server).leaveStrangers
			(*Server).loadUsers (*Server).makeRoom (*Server).run (*Server).serve (*Server).start (*Server).untilRoom
			(*Server).writeACLFile (*aclLog).add (*admission).await (*admission).next (*admission).passOn
			(*boundedConn).change (*boundedConn).leave (*boundedListener).awaitPlace (*boundedListener).takePlace
			(*conn).acquireLarge (*conn).batch (*conn).beDefault (*conn).delayAnswer (*conn).end (*conn).execute
			(*conn).executeSeries (*conn).gather (*conn).holds (*conn).kill (*conn).leaveTransaction (*conn).login
			(*conn).mayJoin (*conn).newSession (*conn).noteSlow (*conn).readAhead (*conn).readDeadline (*conn).refuse
			(*conn).releaseLarge (*conn).reset (*conn).run (*conn).runBuffered (*conn).runCharged (*conn).semaphore
			(*conn).shakeHands (*filters).collect (*guesses).given (*handshaking).Read (*hub).clientsFit (*pass).step
			(*slowLog).add (*source).Read (*use).add (*warnings).tell New aclDelUser aclLoad clientKill clientList
			closeTold commands delayAfter isName label networkOfIP newConn pace.await selectDB settings
			shutdown slowCopy`,
	},
	{
		pkg:   "./internal/acl",
		tests: []string{"./internal/acl"},
		functions: `
			(*Lists).Load (*Lists).Login (*Lists).Remove (*Lists).change (*User).Check (*rules).accepts (*rules).apply
			(*selector).allowsKey (*selector).applyCommands (*selector).set`,
	},
	{
		pkg:       "./internal/resp",
		tests:     []string{"./internal/resp", "./server"},
		functions: `(*Decoder).Next (*Decoder).Shrink (*Decoder).room`,
	},
	{
		pkg:       "./txn",
		tests:     []string{"./txn", "./kv"},
		functions: `(*session).intercept (*session).runIn (*session).transact Leave discard endTransaction exec unwatch`,
	},
}
